// Command opensergo-go subscribes rules with the OpenSergo SDK for Go and prints what the SDK tells it.
//
//	opensergo-go HOST PORT
//
// It takes commands from standard input, one in a line, and ends with its input:
//
//	start                            connects; what is subscribed before that is subscribed then
//	subscribe NAMESPACE APP KIND     asks for rules; KIND is its simple name
//	unsubscribe NAMESPACE APP KIND   asks for no more of them
//	refuse NAMESPACE APP KIND        lets the subscriber answer with an error from now on
//	cached NAMESPACE APP KIND        shows what the SDK has in its cache
//	close                            ends; the SDK has no other way to leave
//
// Each thing that happens is one line of JSON on standard output, with its name in "event": "data" when the SDK calls
// the subscriber, "cached" as the answer to that command, "trouble" when the SDK complains, and the command when it has
// been done. Rules are in the JSON form that protobuf defines.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/opensergo/opensergo-go/pkg/client"
	"github.com/opensergo/opensergo-go/pkg/common/logging"
	"github.com/opensergo/opensergo-go/pkg/transport/subscribe"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "opensergo-go:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("expected HOST PORT")
	}
	port, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	out := &report{}
	logging.SetConsoleLogger(&complaints{out})
	driver := &driver{client: client.NewOpenSergoClient(arguments[0], port), out: out}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 1 && words[0] == "close" {
			return nil
		}
		if err := driver.do(words); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

type driver struct {
	client  *client.OpenSergoClient
	out     *report
	refused sync.Map // of subscribe.SubscribeKey
}

func (d *driver) do(words []string) error {
	if len(words) == 1 && words[0] == "start" {
		return d.out.print(map[string]any{"event": "start", "ok": d.client.Start() == nil})
	}
	if len(words) != 4 {
		return fmt.Errorf("no such command")
	}
	kind, err := kindNamed(words[3])
	if err != nil {
		return err
	}
	key := subscribe.NewSubscribeKey(words[1], words[2], kind)
	switch words[0] {
	case "subscribe":
		wish := client.NewSubscribeInfo(key)
		wish.AppendSubscriber(&subscriber{d})
		d.client.RegisterSubscribeInfo(wish)
		return d.out.print(about("subscribe", *key))
	case "unsubscribe":
		line := about("unsubscribe", *key)
		line["ok"] = d.client.UnsubscribeConfig(*key)
		return d.out.print(line)
	case "refuse":
		d.refused.Store(*key, true)
		return d.out.print(about("refuse", *key))
	case "cached":
		line := about("cached", *key)
		if held := d.client.SubscribeDataCache().GetSubscribedData(*key); held != nil {
			if err := d.describe(line, *key, held.Data()); err != nil {
				return err
			}
		}
		return d.out.print(line)
	}
	return fmt.Errorf("no such command")
}

// about begins a line about a subscription.
func about(event string, key subscribe.SubscribeKey) map[string]any {
	return map[string]any{
		"event": event, "namespace": key.Namespace(), "app": key.App(), "kind": key.Kind().GetSimpleName(),
	}
}

// describe adds the rules to a line, and the version that the SDK holds them at.
func (d *driver) describe(line map[string]any, key subscribe.SubscribeKey, data any) error {
	messages, ok := data.([]protoreflect.ProtoMessage)
	if !ok {
		return fmt.Errorf("the SDK gave a %T", data)
	}
	rules := make([]json.RawMessage, 0, len(messages))
	for _, message := range messages {
		text, err := protojson.Marshal(message)
		if err != nil {
			return err
		}
		rules = append(rules, text)
	}
	line["rules"] = rules
	line["version"] = d.client.SubscribeDataCache().GetSubscribedData(key).Version()
	return nil
}

// A subscriber prints what it is told. The SDK compares subscribers, so each is one of its own.
type subscriber struct{ driver *driver }

func (s *subscriber) OnSubscribeDataUpdate(key subscribe.SubscribeKey, data any) (bool, error) {
	line := about("data", key)
	if err := s.driver.describe(line, key, data); err != nil {
		return false, err
	}
	if err := s.driver.out.print(line); err != nil {
		return false, err
	}
	if _, refused := s.driver.refused.Load(key); refused {
		return false, fmt.Errorf("refused as told")
	}
	return true, nil
}

// A report is the output, which the SDK's goroutines share.
type report struct{ writing sync.Mutex }

func (r *report) print(line map[string]any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	_, err = fmt.Printf("%s\n", text)
	return err
}

// complaints takes what the SDK logs, which would go to standard output otherwise, and prints what matters of it.
type complaints struct{ out *report }

func (c *complaints) Print(string)         {}
func (c *complaints) Debug(string, ...any) {}
func (c *complaints) Info(string, ...any)  {}
func (c *complaints) DebugEnabled() bool   { return false }
func (c *complaints) InfoEnabled() bool    { return false }
func (c *complaints) WarnEnabled() bool    { return true }
func (c *complaints) ErrorEnabled() bool   { return true }

func (c *complaints) Warn(message string, _ ...any) {
	_ = c.out.print(map[string]any{"event": "trouble", "message": message})
}

func (c *complaints) Error(err error, message string, _ ...any) {
	_ = c.out.print(map[string]any{"event": "trouble", "message": message + ": " + err.Error()})
}

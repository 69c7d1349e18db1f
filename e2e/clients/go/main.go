// Command informer watches ConfigMaps with a shared informer of client-go and prints what it is told.
//
// One line for each thing that happens, in the order in which it happens:
//
//	REQUEST list|stream|watch CODE  what was asked (a list, a list as a stream, a watch) and how it was answered
//	SYNCED                          the handler has been told of the first state
//	ADDED|MODIFIED|DELETED NAME RV  an object as the handler got it; LOST if it went while nobody watched
//	STORE NAME RV                   an object in the informer's store, at the end
//
// It ends once it has been told of the object that -until names, and after -patience in any case.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	namespace := flag.String("namespace", "default", "the namespace to watch")
	until := flag.String("until", "", "the object after which to end")
	patience := flag.Duration("patience", 3*time.Minute, "how long to wait for it")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	out := &report{lines: bufio.NewWriter(os.Stdout)}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{next, out} })
	client, err := core(config)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	source := cache.NewListWatchFromClient(client, "configmaps", *namespace, fields.Everything())
	// Resyncs would repeat updates that nobody made, so there are none.
	informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	ended := make(chan struct{})
	var once sync.Once
	tell := func(what string, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			what, object = "LOST", unknown.Obj
		}
		configMap := object.(*corev1.ConfigMap)
		out.line("%s %s %s", what, configMap.Name, configMap.ResourceVersion)
		if configMap.Name == *until {
			once.Do(func() { close(ended) })
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("ADDED", object) },
		UpdateFunc: func(_, object any) { tell("MODIFIED", object) },
		DeleteFunc: func(object any) { tell("DELETED", object) },
	})
	if err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("the informer has no first state after %v", *patience)
	}
	out.line("SYNCED")
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("not told of %q after %v", *until, *patience)
	}
	var stored []string
	for _, object := range informer.GetStore().List() {
		configMap := object.(*corev1.ConfigMap)
		stored = append(stored, configMap.Name+" "+configMap.ResourceVersion)
	}
	sort.Strings(stored)
	for _, line := range stored {
		out.line("STORE %s", line)
	}
	return nil
}

// core is a client for the core group alone: the clientset of client-go brings every group and takes minutes to
// compile, and an informer is made of these parts in any case.
func core(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// report writes lines from several goroutines, each at once.
type report struct {
	mu    sync.Mutex
	lines *bufio.Writer
}

func (r *report) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.lines, format+"\n", args...)
	r.lines.Flush()
}

// recorder reports what is asked of the server and answered.
type recorder struct {
	next http.RoundTripper
	out  *report
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	query := request.URL.Query()
	if path.Base(request.URL.Path) == "configmaps" && err == nil {
		asked := "list"
		if query.Get("sendInitialEvents") == "true" {
			asked = "stream"
		} else if query.Get("watch") == "true" {
			asked = "watch"
		}
		r.out.line("REQUEST %s %d", asked, response.StatusCode)
	}
	return response, err
}

package main

import (
	"fmt"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/opensergo/opensergo-go/pkg/configkind"
	rules "github.com/opensergo/opensergo-go/pkg/proto/fault_tolerance/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A furtherKind is one that this SDK has no name for. Its registry takes it as applications may add their own.
type furtherKind struct{ group, simple string }

func (k furtherKind) GetName() string       { return k.group + "/v1alpha1/" + k.simple }
func (k furtherKind) GetSimpleName() string { return k.simple }

// kinds are those that the SDK knows and those that are added to it.
var kinds = map[string]configkind.ConfigKind{
	"FaultToleranceRule": configkind.ConfigKindRefFaultToleranceRule{},
	"RateLimitStrategy":  configkind.ConfigKindRefRateLimitStrategy{},
}

func init() {
	for _, further := range []struct {
		group, simple string
		message       proto.Message
	}{
		{"fault-tolerance.opensergo.io", "ThrottlingStrategy", &rules.ThrottlingStrategy{}},
		{"fault-tolerance.opensergo.io", "ConcurrencyLimitStrategy", &rules.ConcurrencyLimitStrategy{}},
		{"fault-tolerance.opensergo.io", "CircuitBreakerStrategy", &rules.CircuitBreakerStrategy{}},
		{"traffic.opensergo.io", "TrafficRouter", &route.RouteConfiguration{}},
		// One that no control plane has.
		{"nowhere.opensergo.io", "UnheardOf", &rules.ThrottlingStrategy{}},
	} {
		kind := furtherKind{further.group, further.simple}
		kinds[further.simple] = kind
		configkind.GetConfigKindMetadataRegistry().RegisterConfigKind(kind, further.message.ProtoReflect().Type())
	}
	if err := protoregistry.GlobalTypes.RegisterMessage(fallback()); err != nil {
		panic(err)
	}
}

func kindNamed(simple string) (configkind.ConfigKind, error) {
	if kind, ok := kinds[simple]; ok {
		return kind, nil
	}
	return nil, fmt.Errorf("no kind %q", simple)
}

// fallback is the message inside of a route that says where else to go. Nobody publishes it for Go.
func fallback() protoreflect.MessageType {
	text := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name:   proto.String(name),
			Number: proto.Int32(number),
			Label:  descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type:   descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:    proto.String("router/v1/route_fallback.proto"),
		Package: proto.String("io.opensergo.proto.router.v1"),
		Syntax:  proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("ClusterFallbackConfig_ClusterConfig"),
			Field: []*descriptorpb.FieldDescriptorProto{text("RoutingCluster", 1), text("FallbackCluster", 2)},
		}},
	}, nil)
	if err != nil {
		panic(err)
	}
	return dynamicpb.NewMessageType(file.Messages().Get(0))
}

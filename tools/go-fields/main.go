// Prints how Go writes each field of the stable Kubernetes types: crates/apiserver/src/openapi/go_fields.txt.
//
// A line is a type and its fields, in the order in which Go writes them. What Go does with a field that is not set, or
// set to nothing, follows from its tag and its type:
//
//	name     left out when empty; a struct is always written ("omitempty")
//	name?    a pointer: left out when absent, kept when empty
//	name!    always written, as the zero value of its type, or null for lists and maps
//	name*    a pointer that is always written, as null when absent
//	name-    a struct that is left out when it is zero ("omitzero")
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	stable    = regexp.MustCompile(`^v[0-9]+$`)
	types     = map[string]string{}
)

func main() {
	for kind, known := range scheme.Scheme.AllKnownTypes() {
		if stable.MatchString(kind.Version) && !strings.HasSuffix(kind.Kind, "List") && !strings.HasSuffix(kind.Kind, "Options") {
			visit(known)
		}
	}
	visit(reflect.TypeFor[apiextensions.CustomResourceDefinition]())
	visit(reflect.TypeFor[apiregistration.APIService]())
	visit(reflect.TypeFor[meta.DeleteOptions]())
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fmt.Println(name + types[name])
	}
}

// visit notes down the struct that a type is made of, and those in it.
func visit(of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		visit(of.Elem())
	case reflect.Struct:
		if name := openAPIName(of); types[name] == "" && !reflect.PointerTo(of).Implements(marshaler) {
			types[name] = " "
			types[name] = fields(of)
		}
	}
}

func fields(of reflect.Type) string {
	var line strings.Builder
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			line.WriteString(fields(field.Type))
		case name != "" && name != "-":
			line.WriteString(" " + name + mark(field.Type, strings.Split(options, ",")))
			visit(field.Type)
		}
	}
	return line.String()
}

func mark(of reflect.Type, options []string) string {
	isPointer := of.Kind() == reflect.Pointer || of.Kind() == reflect.Interface
	omits := slices.Contains(options, "omitempty")
	switch {
	case slices.Contains(options, "omitzero"):
		return "-"
	case isPointer && omits:
		return "?"
	case isPointer:
		return "*"
	case omits:
		return ""
	}
	return "!"
}

// openAPIName is what the OpenAPI documents call a type: io.k8s.api.core.v1.Pod.
func openAPIName(of reflect.Type) string {
	host, path, _ := strings.Cut(of.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + of.Name()
}

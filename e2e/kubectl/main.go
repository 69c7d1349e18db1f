// Command kubectl is the real kubectl, built from the modules that Kubernetes publishes.
//
// Kubernetes' own repository cannot be installed with "go install"; its client's package can be linked. `./test` builds
// this when the machine has no kubectl.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

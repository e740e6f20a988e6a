package nodepool

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// excuse records on a resource why rules of cdk-nag do not fit it, for apps that use cdk-nag. It writes the metadata that cdk-nag reads instead
// of calling cdk-nag, so that other apps need not load that library.
func excuse(c constructs.IConstruct, reasons ...excused) {
	var rules []map[string]any
	for _, r := range reasons {
		rule := map[string]any{"id": r.rule, "reason": r.reason}
		if r.finding != "" {
			rule["applies_to"] = []string{r.finding}
		}
		rules = append(rules, rule)
	}
	resource := c.Node().DefaultChild().(awscdk.CfnResource)
	resource.AddMetadata(jsii.String("cdk_nag"), map[string]any{"rules_to_suppress": rules})
}

type excused struct {
	rule, reason string
	finding      string // if set, only this finding of the rule is suppressed
}

var (
	noTracing = excused{rule: "Serverless-LambdaTracing",
		reason: "The function calls one service and logs what it did; a trace would show nothing more."}
	answersItself = "CloudFormation calls this function and gets every failure as an answer, on which it rolls back."
	usesQueue     = "Failed events go to the function's dead-letter queue; a destination beside it would keep them twice."
)

package protocol

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

var (
	tableNames = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	tableARNs  = regexp.MustCompile(`^arn:[a-z0-9-]+:dynamodb:([a-z0-9-]+):[0-9]{12}:table/([A-Za-z0-9_.-]{3,255})$`)
)

// CheckTable returns an error unless table is a table's name or its ARN. A table
// of another account can only be named by its ARN. DynamoDB accepts either in
// every request on items.
func CheckTable(table string) error {
	if tableNames.MatchString(table) || tableARNs.MatchString(table) {
		return nil
	}
	return fmt.Errorf("table %q: use a name of 3 to 255 of A-Z a-z 0-9 . _ -, or an ARN such as arn:aws:dynamodb:us-east-1:111111111111:table/NAME", table)
}

// TableName returns the name in a table's ARN, and a name unchanged.
func TableName(table string) string {
	if arn := tableARNs.FindStringSubmatch(table); arn != nil {
		return arn[2]
	}
	return table
}

// checkRegion returns an error if the table's ARN names a Region other than the
// client's: DynamoDB would answer that there is no such table. A client with a
// custom endpoint is not checked.
func (d *DynamoDB) checkRegion() error {
	arn := tableARNs.FindStringSubmatch(d.table)
	client, ok := d.client.(interface{ Options() dynamodb.Options })
	if arn == nil || !ok || IsNil(d.client) {
		return nil
	}
	if o := client.Options(); o.BaseEndpoint == nil && o.Region != arn[1] {
		return fmt.Errorf("%w: table %q is in the Region %s, and requests go to %q: set AWS_REGION to %s, or name the table's replica there", ErrTable, d.table, arn[1], o.Region, arn[1])
	}
	return nil
}

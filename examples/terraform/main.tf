# Nodelease with Terraform: applies the plain CloudFormation template that `make template` writes, and uploads the functions' zips for it.
#
# NOT APPLIED: a test parses this file and compares its parameters with the template's; it has never been run.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "release" {
  description = "Directory that make template has written; a new one for each release"
  type        = string
  default     = "dist/template"
}

variable "zip_bucket" {
  description = "An S3 bucket in the Region of the stack"
  type        = string
}

variable "architecture" {
  description = "arm64 or x86_64"
  type        = string
  default     = "arm64"
}

locals {
  functions = toset(["bootstrap", "reaper", "poolmetric"])
  # CloudFormation updates a function only if its zip has another name, so the name depends on the content.
  prefix = "nodelease/${sha256(join("", [for f in local.functions : filesha256("${var.release}/${var.architecture}/${f}.zip")]))}/"
}

resource "aws_s3_object" "zip" {
  for_each = local.functions
  bucket   = var.zip_bucket
  key      = "${local.prefix}${var.architecture}/${each.key}.zip"
  source   = "${var.release}/${var.architecture}/${each.key}.zip"
}

resource "aws_cloudformation_stack" "nodelease" {
  name          = "nodelease"
  template_body = file("${var.release}/nodelease.template.json")
  capabilities  = ["CAPABILITY_IAM"]
  parameters = {
    PoolName        = "orders"
    PoolSize        = 1024
    ExpectedHolders = "12000"
    ZipBucket       = var.zip_bucket
    ZipPrefix       = local.prefix
    Architecture    = var.architecture
  }
  depends_on = [aws_s3_object.zip]
}

output "table" {
  description = "NODELEASE_TABLE of the tasks"
  value       = aws_cloudformation_stack.nodelease.outputs["NodesTableName"]
}

output "alarm_topic" {
  description = "Subscribe somebody"
  value       = aws_cloudformation_stack.nodelease.outputs["NodesAlarmTopic"]
}

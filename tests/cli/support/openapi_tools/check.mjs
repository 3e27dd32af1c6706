// node check.mjs FILE: whether the file is a valid OpenAPI document. Prints what is wrong.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.ONCE_NODE_MODULES}/`);
const { Validator } = await import(pathToFileURL(require.resolve("@seriousme/openapi-schema-validator")));
const validator = new Validator();
const { valid, errors } = await validator.validate(JSON.parse(readFileSync(process.argv[2], "utf8")));
console.log(JSON.stringify({ valid, version: validator.version, errors }));

/** Generates a JSON Schema of configuration files, which editors use. */

import type { TSchema } from 'typebox';
import { loginOptions } from './login-options.ts';
import type { OptionRow, OptionTable } from './option.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';
import { fileNameOf, shapeOf } from './schema.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Returns the JSON Schema of a master's configuration file. */
export function configJsonSchema(): JsonSchema {
  const own = {
    ...propertiesOf(ownOptions),
    limits: mapOf(propertiesOf(limitOptions), 'Limits on the requests of minions.'),
    acl: mapOf(propertiesOf(aclOptions), 'The policy.'),
  };
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Configuration of a saltbridge master',
    type: 'object',
    properties: {
      ...propertiesOf(saltOptions),
      ...propertiesOf(rightsOptions),
      ...propertiesOf(loginOptions),
      saltbridge: mapOf(own, 'Options that Salt does not have.'),
    },
  };
}

function mapOf(properties: JsonSchema, description: string): JsonSchema {
  return { type: ['object', 'null'], description, additionalProperties: false, properties };
}

function propertiesOf(table: OptionTable): JsonSchema {
  return Object.fromEntries(Object.values(table).map((row) => [row.name, propertyOf(row)]));
}

function propertyOf({ schema, doc, default: value, defaultText }: OptionRow): JsonSchema {
  // A key without a value is treated like an option that is not set.
  const form = { anyOf: [formInFiles(schema), { type: 'null' }], description: doc };
  const isShown = defaultText === undefined && value !== null && typeof value !== 'object';
  return isShown ? { ...form, default: value } : form;
}

/** Returns the JSON Schema of the values that a schema accepts in files. */
function formInFiles(schema: TSchema): JsonSchema {
  const shape = shapeOf(schema);
  const { description, type, minimum, maximum, words } = shape;
  const text = description === undefined ? {} : { description };
  if (shape.inFiles !== undefined) return { ...formInFiles(shape.inFiles), ...text };
  if (shape.anyOf !== undefined) return { ...text, anyOf: shape.anyOf.map(formInFiles) };
  if (shape.each !== undefined) {
    return { ...text, type: 'object', additionalProperties: formInFiles(shape.each) };
  }
  if (shape.properties !== undefined) return { ...text, ...sectionForm(shape.properties, shape) };
  if (shape.items !== undefined) {
    const items = formInFiles(shape.items);
    const list = { type: 'array', items };
    return shape.takesOne === true ? { ...text, anyOf: [list, items] } : { ...text, ...list };
  }
  if (words !== undefined) return { ...text, enum: words };
  // If an option accepts unquoted numbers as text, the schema for editors accepts them too.
  const isLenient = type === 'string' && shape.accept !== undefined;
  const types = isLenient ? ['string', 'number'] : type;
  return { ...text, type: types, const: shape.const, enum: shape.enum, minimum, maximum };
}

function sectionForm(
  properties: Readonly<Record<string, TSchema>>,
  { required = [] }: { readonly required?: readonly string[] },
): JsonSchema {
  const members = Object.entries(properties);
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      members.map(([member, schema]) => [fileNameOf(member, schema), formInFiles(schema)]),
    ),
    required: members
      .filter(([name, its]) => required.includes(name) && shapeOf(its).default === undefined)
      .map(([member, schema]) => fileNameOf(member, schema)),
  };
}

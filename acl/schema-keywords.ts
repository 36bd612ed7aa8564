/** Keywords of JSON Schema whose value is a schema, a list of schemas, or a map of them. */
export const schemaKeywords: Readonly<Record<'one' | 'list' | 'map', ReadonlySet<string>>> = {
  one: new Set([
    'items',
    'additionalProperties',
    'propertyNames',
    'contains',
    'not',
    'if',
    'then',
    'else',
  ]),
  list: new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']),
  map: new Set(['properties', '$defs', 'definitions']),
};

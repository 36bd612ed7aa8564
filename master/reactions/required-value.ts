/** Whether a JSON Schema makes sure that there is a plain value at a path. */

const scalars: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean']);

/**
 * The types that a value at a path may have, where the schema requires it to be there and to be
 * text, a number, or true or false; else `undefined`. Only `type`, `required`, `properties`, `enum`
 * and `const` are looked at, step by step.
 * @param path names of members from the top
 */
export function requiredTypes(
  schema: unknown,
  path: readonly string[],
): ReadonlySet<string> | undefined {
  const [name, ...rest] = path;
  if (!isMap(schema)) return undefined;
  if (name === undefined) return scalarTypes(schema);
  const { type, required, properties } = schema;
  // `required` says nothing of what is no object.
  if (type !== 'object' || !Array.isArray(required) || !required.includes(name)) return undefined;
  if (!isMap(properties) || !Object.hasOwn(properties, name)) return undefined;
  return requiredTypes(properties[name], rest);
}

function scalarTypes({
  type,
  enum: values,
  const: only,
}: Record<string, unknown>): ReadonlySet<string> | undefined {
  const listed = Array.isArray(values) ? values : only === undefined ? undefined : [only];
  const types = listed?.map((value: unknown) => typeof value) ?? [type].flat();
  if (types.length === 0 || !types.every((it) => scalars.has(it))) return undefined;
  return new Set(types.map((it) => (it === 'integer' ? 'number' : String(it))));
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Derives valid examples and the names of fields from JSON Schemas. */

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the schemas in `allOf`, `anyOf` and `oneOf`. */
function parts(schema: Fields): readonly Fields[] {
  return [...listOf(schema.allOf), ...listOf(schema.anyOf), ...listOf(schema.oneOf)].filter(
    isFields,
  );
}

/** Maximum depth of the fields in the matrix. */
const maxDepth = 3;

/** Returns the paths of all fields of a schema, for example `servers.0.minion`. */
export function fieldsOf(schema: unknown, depth = maxDepth): readonly string[] {
  if (!isFields(schema) || depth === 0) return [];
  const { properties, items } = schema;
  const own = isFields(properties) ? Object.entries(properties) : [];
  if (isFields(items)) own.push(['0', items]);
  const below = own.flatMap(([name, it]) => [
    name,
    ...fieldsOf(it, depth - 1).map((more) => `${name}.${more}`),
  ]);
  return [...new Set([...below, ...parts(schema).flatMap((it) => fieldsOf(it, depth))])];
}

/** Returns a value that fits a schema, with the required fields only. */
export function exampleOf(schema: unknown): unknown {
  if (!isFields(schema)) return 'x1';
  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const [first] = [...listOf(schema.anyOf), ...listOf(schema.oneOf)];
  if (first !== undefined) return exampleOf(first);
  if (Array.isArray(schema.allOf)) {
    return Object.assign({}, ...schema.allOf.map((it) => exampleOf(it)));
  }
  if (schema.type === 'object' || isFields(schema.properties)) return exampleMap(schema);
  if (schema.type === 'array')
    return Number(schema.minItems ?? 0) > 0 ? [exampleOf(schema.items)] : [];
  if (schema.type === 'integer' || schema.type === 'number') return schema.minimum ?? 1;
  if (schema.type === 'boolean') return true;
  return 'x1';
}

function exampleMap({ properties, required }: Fields): unknown {
  const names = new Set(listOf(required));
  const own = isFields(properties) ? Object.entries(properties) : [];
  return Object.fromEntries(
    own.filter(([name]) => names.has(name)).map(([name, it]) => [name, exampleOf(it)]),
  );
}

/** Returns a copy of `whole` with another value in one field. */
export function withField(whole: unknown, path: string, value: unknown): unknown {
  if (path === '') return value;
  const [name = '', ...rest] = path.split('.');
  const inner = isFields(whole) || Array.isArray(whole) ? Reflect.get(whole, name) : undefined;
  const changed = withField(inner, rest.join('.'), value);
  if (name === '0') return [changed];
  return { ...(isFields(whole) ? whole : {}), [name]: changed };
}

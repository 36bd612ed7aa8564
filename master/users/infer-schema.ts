import { isWireMap, type WireValue } from '#minion-protocol';
import { Float } from '#template/python/values.ts';

/**
 * Returns a JSON Schema that accepts only values with the same keys and types as one of the
 * samples. Samples with equal keys and types result in the same schema.
 */
export function inferSchema(samples: readonly WireValue[]): unknown {
  const schemas = distinct(samples.map(schemaOf));
  return schemas.length === 1 ? schemas[0] : { anyOf: schemas };
}

function schemaOf(value: WireValue): unknown {
  if (value === null) return { type: 'null' };
  if (Array.isArray(value)) {
    const items = distinct(value.map(schemaOf));
    if (items.length === 0) return { type: 'array', maxItems: 0 };
    return { type: 'array', items: items.length === 1 ? items[0] : { anyOf: items } };
  }
  if (!isWireMap(value)) return { type: typeOf(value) };
  const names = Object.keys(value).sort();
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, schemaOf(value[name] ?? null)])),
    required: names,
    additionalProperties: false,
  };
}

function typeOf(value: WireValue): string {
  if (value instanceof Float) return 'integer';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function distinct(schemas: readonly unknown[]): unknown[] {
  return [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
}

/** Scalars as PyYAML's representer writes them. */
import { floatRepr } from '../python/float.ts';
import { integerText } from '../python/integer.ts';
import { Float, isInteger, type Value } from '../python/values.ts';

/** The text of a scalar that is no string; undefined for anything else. */
export function representScalar(value: Value): string | undefined {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (isInteger(value)) return integerText(value);
  return value instanceof Float ? representFloat(value.value) : undefined;
}

/** YAML 1.1 wants a point before the exponent. */
function representFloat(value: number): string {
  if (Number.isNaN(value)) return '.nan';
  if (!Number.isFinite(value)) return value > 0 ? '.inf' : '-.inf';
  const text = floatRepr(value);
  return text.includes('.') || !text.includes('e') ? text : text.replace('e', '.0e');
}

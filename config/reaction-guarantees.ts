/** Checks whether the schemas of signal rules guarantee the event data that a reaction uses. */

import type { PolicyRule } from '#acl';
import { isMap } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { Reaction } from './reaction.ts';
import { globsOf, isMapped, listedIds, targetedOf, valuesOf } from './reaction-values.ts';

const scalars: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean']);

/**
 * Returns the types that a JSON Schema permits for one value in the data of an event: `string`,
 * `number` or `boolean`. Returns `undefined` if the schema does not require the value, or permits
 * other types. Evaluates only the keywords `type`, `required`, `properties`, `enum` and `const`.
 * @param path - keys that lead from the top of the data to the value
 */
export function requiredTypes(
  schema: unknown,
  path: readonly string[],
): ReadonlySet<string> | undefined {
  const [name, ...rest] = path;
  if (!isMap(schema)) return undefined;
  if (name === undefined) return scalarTypes(schema);
  const { type, required, properties } = schema;
  // `required` does not apply to values that are not objects.
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

/** Value that a reaction takes from the data of an event. */
export interface NeededValue {
  /** Path of the reaction's field that contains the value. */
  readonly field: string;
  /** Path of the value in the event's data: one key for each level of nested maps. */
  readonly path: readonly string[];
  /** Whether the field accepts text, besides numbers and booleans. */
  readonly mayBeText: boolean;
}

/** Returns the values that a reaction takes from the data of its event. */
export function neededValues({ do: action, throttleKey }: Reaction): NeededValue[] {
  const kind = targetedOf(action)?.kind;
  const values = [
    ...valuesOf(action),
    ...listedIds(action).map((value) => [`do.${kind}.target.list`, value] as const),
    ...throttleKey.map((from) => ['throttle_key', { from }] as const),
  ];
  return values.flatMap(([field, value]) => {
    if (!isMapped(value) || value.from === 'sender') return [];
    const mayBeText = !field.includes('.args.');
    return [{ field, path: pathOf(value.from), mayBeText }];
  });
}

/** Splits a path such as `data.a.b` into the names below `data`: `a` and `b`. */
export function pathOf(from: string): readonly string[] {
  return from.split('.').slice(1);
}

/**
 * Returns the names of the signal rules whose schemas require all values that a reaction uses. Only
 * rules that permit a tag of the reaction count. If several of these rules have the same name, the
 * schemas of all of them must require the values.
 */
export function schemaGuarantees(
  reaction: Pick<Reaction, 'on'>,
  needed: readonly NeededValue[],
  rules: readonly PolicyRule[],
): Set<string> {
  const signals = rules.flatMap((rule) =>
    rule.action === 'signal' && rule.effect === 'allow' ? [rule] : [],
  );
  const [good, bad] = [new Set<string>(), new Set<string>()];
  for (const { name, resource } of signals) {
    if (!globsOf(reaction).some((on) => mayMean(resource.tag, on))) continue;
    const isGood = needed.every((value) => isRequired(resource.schema, value));
    (isGood ? good : bad).add(name);
  }
  // A decision records only the name of its rule. If several rules have the same name, all of them
  // must give the guarantee.
  for (const name of bad) good.delete(name);
  return good;
}

function isRequired(schema: unknown, { path, mayBeText }: NeededValue): boolean {
  const types = requiredTypes(schema, path);
  return types !== undefined && (mayBeText || !types.has('string'));
}

/** Whether an event may match both the tag of a rule and the glob of a reaction. */
function mayMean(ruleTag: string, on: string): boolean {
  if (/[*?[]/.test(on)) return true;
  return compileGlob(ruleTag.replace(/\$\{[^}]*\}/g, '*'))(on);
}

/** Which rules of the policy vouch for the data that a reaction takes from an event. */
import type { PolicyRule } from '../../acl/index.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import { globsOf, isMapped, listedIds, type Reaction, targetedOf, valuesOf } from './reaction.ts';
import { requiredTypes } from './required-value.ts';

/** A value of the event's data that a reaction needs. */
export interface NeededValue {
  /** Where it is used, in words. */
  readonly field: string;
  /** Names of members from the top of the data. */
  readonly path: readonly string[];
  /** Whether it may be text there. */
  readonly mayBeText: boolean;
}

/** What a reaction takes from the data of its event. */
export function neededValues({ do: action, onceBy }: Reaction): NeededValue[] {
  const kind = targetedOf(action)?.kind;
  const values = [
    ...valuesOf(action),
    ...listedIds(action).map((value) => [`do.${kind}.target.list`, value] as const),
    ...onceBy.map((from) => ['once_by', { from }] as const),
  ];
  return values.flatMap(([field, value]) => {
    if (!isMapped(value) || value.from === 'sender') return [];
    const mayBeText = !field.includes('.args.');
    return [{ field, path: pathOf(value.from), mayBeText }];
  });
}

/** `data.a.b` as its names. */
export function pathOf(from: string): readonly string[] {
  return from.split('.').slice(1);
}

/** Names of the rules for what a reaction waits for whose schema makes sure of all that is needed. */
export function vouchingRules(
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
  // Rules are told apart by name alone where one has decided.
  for (const name of bad) good.delete(name);
  return good;
}

function isRequired(schema: unknown, { path, mayBeText }: NeededValue): boolean {
  const types = requiredTypes(schema, path);
  return types !== undefined && (mayBeText || !types.has('string'));
}

/** Whether some tag of a rule may be one that is waited for. */
function mayMean(ruleTag: string, on: string): boolean {
  if (/[*?[]/.test(on)) return true;
  return compileGlob(ruleTag.replace(/\$\{[^}]*\}/g, '*'))(on);
}

import { isAccepted, markAccepted } from './accepted-rules.ts';
import { compileResource } from './compile-resource.ts';
import { parseTime, refuseContradictions } from './compile-rule.ts';
import { compileSubject } from './compile-subject.ts';
import { PolicyError } from './errors.ts';
import { parseRule, ruleFormProblems } from './parse-rule.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import { parseRate } from './rate.ts';
import type { PolicyRule } from './rule.ts';

/**
 * Returns all mistakes in a rule: the fields with an invalid form, and the invalid patterns in all
 * other fields.
 */
export function ruleProblems(
  name: string,
  value: unknown,
  world: PolicyEnvironment,
): readonly PolicyError[] {
  const ofForm = ruleFormProblems(name, value);
  if (ofForm.length === 0) return rulePatternProblems(parseRule(name, value), world);
  const isRight = (part: string): boolean => ofForm.every(({ path }) => path[0] !== part);
  const given = new Map(Object.entries(Object(value)).filter(([part]) => isRight(part)));
  const hasResource = given.has('action') && given.has('resource');
  const { subject = { minion: '*' }, effect, rate, expires } = Object.fromEntries(given);
  const harmless = { action: 'mine', resource: { fun: '*' } };
  const rest = {
    subject,
    ...(hasResource ? { action: given.get('action'), resource: given.get('resource') } : harmless),
    ...(effect === undefined ? {} : { effect }),
    ...(rate === undefined ? {} : { rate }),
    ...(expires === undefined ? {} : { expires }),
  };
  return [...ofForm, ...rulePatternProblems(parseRule(name, rest), world)];
}

/**
 * Returns the mistakes in a well-formed rule: at most one each in its subject, resource, rate and
 * expiry. If there are none, returns the first contradiction between its fields.
 */
export function rulePatternProblems(
  rule: PolicyRule,
  world: PolicyEnvironment,
): readonly PolicyError[] {
  if (isAccepted(rule, world)) return [];
  const { name, rate, expires } = rule;
  const ofPatterns = [
    ...problemOf(() => compileSubject(rule, world)),
    ...problemOf(() => compileResource(rule, world)),
    ...(rate === undefined ? [] : problemOf(() => parseRate(rate, name))),
    ...(expires === undefined ? [] : problemOf(() => parseTime(expires, name))),
  ];
  const problems = ofPatterns.length > 0 ? ofPatterns : problemOf(() => refuseContradictions(rule));
  if (problems.length === 0) markAccepted(rule, world);
  return problems;
}

function problemOf(look: () => unknown): readonly PolicyError[] {
  try {
    look();
    return [];
  } catch (error) {
    if (error instanceof PolicyError) return [error];
    throw error;
  }
}

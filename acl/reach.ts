/**
 * Reach: the minions over which a target of a subject is evaluated. What the target says of any
 * other minion does not affect the answer, so nobody can probe for it.
 */

import type { CompiledRule, Request } from './compile-rule.ts';
import { applyBuiltInLimits, rulesOn } from './decide.ts';
import type { Policy } from './policy.ts';
import type { Call, Subject } from './types.ts';

/** A function whose arguments may not be known yet; then conditions on them count as met. */
export type IntendedCall = Call | Pick<Call, 'fun'>;

/** A question to {@link reachOf}. Of several functions, all must be permitted. */
export type ReachQuestion =
  | {
      readonly subject: Subject;
      readonly action: 'publish' | 'command';
      readonly calls: readonly IntendedCall[];
    }
  | { readonly subject: Subject; readonly action: 'mine'; readonly fun: string };

/** The minions that rules name. */
export interface Reach {
  /** Whether no rule permits it to anybody. */
  readonly isEmpty: boolean;
  /** Whether it is permitted on this minion. */
  readonly includes: (id: string) => boolean;
  /** Whether a rule forbids it on this minion, or may. */
  readonly denies: (id: string) => boolean;
  /** Whether a target may ask for the pillar of this minion, which is included. */
  readonly showsPillar: (id: string) => boolean;
  /**
   * Whether it includes every minion that this compound target can match. Only the texts of the
   * rules are compared, so that the answer says nothing of other minions.
   */
  readonly covers: (target: string) => boolean;
}

/** Says whom a subject may do something to. Nothing is used up by it. */
export function reachOf(question: ReachQuestion, policy: Policy): Reach {
  const { subject, action } = question;
  const { deny, allow } = policy.ofSubjects.of(subject, action);
  const now = policy.now();
  const isBound = isBeyondBuiltInLimits(question);
  const parts = requestsToReach(question).map((request) => {
    const permitting = isBound ? [] : rulesOn(allow, request, now);
    return {
      deny: rulesOn(deny, request, now),
      allow: permitting,
      showing: permitting.filter(({ showsPillar }) => showsPillar),
    };
  });
  const denies = (id: string): boolean =>
    isBound ||
    parts.some((part) => part.deny.some((rule) => rule.resource.among?.mayMean(id) ?? true));
  const isPermitted = (id: string, rules: 'allow' | 'showing'): boolean =>
    parts.length > 0 &&
    parts.every((part) => part[rules].some((rule) => rule.resource.among?.isEntitled(id) ?? true));
  return {
    isEmpty:
      parts.length === 0 ||
      parts.some((part) => part.allow.length === 0 || part.deny.some(isOnEveryone)),
    includes: (id) => isPermitted(id, 'allow') && !denies(id),
    denies,
    showsPillar: (id) => isPermitted(id, 'showing'),
    covers: (target) =>
      !isBound &&
      parts.length > 0 &&
      parts.every((part) => part.deny.length === 0 && part.allow.some((it) => isOn(it, target))),
  };
}

function isOn({ resource: { among } }: CompiledRule, target: string): boolean {
  return among === undefined || among.within === '*' || among.within === target;
}

function isOnEveryone({ resource }: CompiledRule): boolean {
  return resource.among === undefined;
}

function requestsToReach(question: ReachQuestion): Request[] {
  const { subject, action } = question;
  if (action === 'mine') return [{ subject, action, text: question.fun }];
  return question.calls.map((call) => ({
    subject,
    action,
    text: call.fun,
    ...('args' in call ? { call } : {}),
  }));
}

function isBeyondBuiltInLimits(question: ReachQuestion): boolean {
  const { subject, action } = question;
  if (action !== 'publish') return false;
  const calls = question.calls.map((call) => ({ args: [], kwargs: new Map(), ...call }));
  return applyBuiltInLimits({ subject, action, resource: { calls } }) !== undefined;
}

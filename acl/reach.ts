/**
 * Reach of a subject: the minions on which its targets are evaluated. Targets never match other
 * minions, so that a subject cannot learn facts about them.
 */

import type { Request } from './compile-resource.ts';
import { type CompiledRule, isForOwnGuests, mayReferTo } from './compile-rule.ts';
import { applyBuiltInLimits, rulesOn } from './decide.ts';
import type { Policy } from './policy.ts';
import type { Call, Subject } from './types.ts';

/**
 * Function with its arguments, if they are known. Conditions on unknown arguments are assumed to be
 * met.
 */
export type IntendedCall = Call | Pick<Call, 'fun'>;

/**
 * Subject and action for which {@link reachOf} finds the permitted minions. If there are several
 * calls, all of them must be permitted on a minion.
 */
export type ReachQuestion =
  | {
      readonly subject: Subject;
      readonly action: 'publish' | 'command';
      readonly calls: readonly IntendedCall[];
      /**
       * Whether the same request was already permitted, and then waited. Exhausted rate limits then
       * do not reduce the result. Default: false.
       */
      readonly isRepeated?: boolean;
    }
  | { readonly subject: Subject; readonly action: 'mine'; readonly fun: string };

/** Minions on which a subject may act. */
export interface Reach {
  /**
   * Whether the action is allowed on no minion: no rule allows it, or a rule denies it on all
   * minions.
   */
  readonly isEmpty: boolean;
  /** Whether the action is allowed on this minion. */
  readonly includes: (id: string) => boolean;
  /** Whether a rule certainly or possibly denies the action on this minion. */
  readonly denies: (id: string) => boolean;
  /**
   * Whether targets of the subject may contain conditions on the pillar of this minion. Call it
   * only for minions that `includes` accepts.
   */
  readonly showsPillar: (id: string) => boolean;
  /**
   * Whether the action is certainly allowed on every minion that this compound target can match.
   * True only if a rule allows all minions, or a rule has exactly this target as `within`. No
   * minions are examined, so the result reveals nothing about other minions.
   */
  readonly covers: (target: string) => boolean;
}

/**
 * Returns the minions on which a subject may perform an action. The call does not count towards
 * rate limits.
 */
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
    parts.every((part) => part[rules].some((rule) => mayReferTo(rule, { subject }, id)));
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
      parts.every(
        (part) => part.deny.length === 0 && part.allow.some((it) => isOn(it, subject, target)),
      ),
  };
}

function isOn(rule: CompiledRule, subject: Subject, target: string): boolean {
  const { among } = rule.resource;
  if (among === undefined) return !isForOwnGuests(rule, subject);
  return among.within === '*' || among.within === target;
}

function isOnEveryone({ resource }: CompiledRule): boolean {
  return resource.among === undefined;
}

function requestsToReach(question: ReachQuestion): Request[] {
  const { subject, action } = question;
  // The query has already been counted for its function.
  if (action === 'mine') return [{ subject, action, text: question.fun, isRepeated: true }];
  const { isRepeated } = question;
  return question.calls.map((call) => ({
    ...{ subject, action, isRepeated },
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

/** Rules whose resource is compiled when a decision needs it for the first time. */

import type { TokenBuckets } from '#runtime';
import { type CompiledResource, compileResource } from './compile-resource.ts';
import { type CompiledRule, expiryOf, meterOf, reasonOf, showsPillar } from './compile-rule.ts';
import { type CompiledSubject, compileSubject, restsOnFacts } from './compile-subject.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import type { PolicyRule } from './rule.ts';

/**
 * Compiled subject of each rule. Masters that share a rule share its compiled subject, unless the
 * subject depends on facts of their minions.
 */
const sharedSubjects = new WeakMap<PolicyRule, CompiledSubject>();

/**
 * Compiled rule whose resource is compiled at first use. It is used only for rules that were
 * already found valid, so that the later compilation cannot fail. This saves memory: a compiled
 * resource is many times larger than its rule, and most rules of a large policy concern few
 * subjects.
 */
export class DeferredRule implements CompiledRule {
  readonly rule: PolicyRule;
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly expiresAt: number;
  readonly meter: TokenBuckets | undefined;
  readonly #world: PolicyEnvironment;
  #resource: CompiledResource | undefined;
  #reason: string | undefined;

  constructor(rule: PolicyRule, order: number, world: PolicyEnvironment) {
    this.rule = rule;
    this.order = order;
    this.#world = world;
    this.subject = subjectOf(rule, world);
    this.expiresAt = expiryOf(rule);
    this.meter = meterOf(rule);
  }

  get resource(): CompiledResource {
    this.#resource ??= compileResource(this.rule, this.#world);
    return this.#resource;
  }

  get showsPillar(): boolean {
    return showsPillar(this.rule);
  }

  get reason(): string {
    this.#reason ??= reasonOf(this.rule);
    return this.#reason;
  }
}

function subjectOf(rule: PolicyRule, world: PolicyEnvironment): CompiledSubject {
  if (restsOnFacts(rule)) return compileSubject(rule, world);
  const known = sharedSubjects.get(rule);
  if (known !== undefined) return known;
  const compiled = compileSubject(rule, world);
  sharedSubjects.set(rule, compiled);
  return compiled;
}

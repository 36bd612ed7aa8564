/** Finds the rules of a policy that may apply to a subject, and caches them. */

import type { CompiledRule } from './compile-rule.ts';
import type { RuleAction } from './rule.ts';
import { RuleIndex, valueIn } from './rule-index.ts';
import type { Subject } from './types.ts';

/** Rules of a policy that may apply to a subject. */
interface SubjectRules {
  readonly deny: readonly RuleIndex[];
  readonly allow: readonly RuleIndex[];
  readonly kind: Subject['kind'];
}

type Effect = 'allow' | 'deny';
/** Key of a group of rules: kind of subject, action and effect. */
type Group = `${Subject['kind']} ${RuleAction} ${Effect}`;

/**
 * Maximum number of cached results, one for each subject and action. At this limit, the whole cache
 * is cleared.
 */
const maxSubjects = 50_000;
/** Maximum number of rules in the cached indexes. Above it, the whole cache is cleared. */
const maxOwnRules = 1_000_000;

/** Groups the rules of a policy by subject. */
export class RulesBySubject {
  readonly #ofEveryone = new Map<Group, RuleIndex>();
  readonly #ofSome = new Map<Group, CompiledRule[]>();
  /** Cached rules, by action and then by subject. */
  readonly #known = new Map<string, Map<string, SubjectRules>>();
  /**
   * Indexes of rules. The key lists the positions of the rules in the policy. Subjects with the
   * same rules share an index.
   */
  readonly #shared = new Map<string, RuleIndex>();
  #count = 0;
  #ownRules = 0;

  constructor(rules: readonly CompiledRule[]) {
    for (const compiled of rules) {
      const { rule, subject } = compiled;
      const group: Group = `${subject.kind} ${rule.action} ${rule.effect}`;
      if (subject.isEveryone) valueIn(this.#ofEveryone, group, () => new RuleIndex()).add(compiled);
      else valueIn(this.#ofSome, group, () => []).push(compiled);
    }
  }

  of(subject: Subject, action: RuleAction): SubjectRules {
    const name = subject.kind === 'minion' ? subject.id : subjectName(subject);
    const known = this.#known.get(action)?.get(name);
    // Compare the kind too: a minion's id may equal the key of another subject.
    if (known?.kind === subject.kind) return known;
    const found = {
      kind: subject.kind,
      deny: this.#find(subject, action, 'deny'),
      allow: this.#find(subject, action, 'allow'),
    };
    this.#remember(action, name, found);
    return found;
  }

  #remember(action: RuleAction, name: string, found: SubjectRules): void {
    if (this.#count >= maxSubjects || this.#ownRules > maxOwnRules) {
      this.#known.clear();
      this.#shared.clear();
      this.#count = 0;
      this.#ownRules = 0;
    }
    const ofAction = this.#known.get(action) ?? new Map<string, SubjectRules>();
    this.#known.set(action, ofAction.set(name, found));
    this.#count += 1;
  }

  #find(subject: Subject, action: RuleAction, effect: Effect): RuleIndex[] {
    const group: Group = `${subject.kind} ${action} ${effect}`;
    const shared = this.#ofEveryone.get(group);
    const own = (this.#ofSome.get(group) ?? []).filter((it) => it.subject.covers(subject));
    const indexes = shared === undefined ? [] : [shared];
    return own.length === 0 ? indexes : [...indexes, this.#indexOf(own)];
  }

  #indexOf(own: readonly CompiledRule[]): RuleIndex {
    const orders = own.map(({ order }) => order).join(' ');
    const known = this.#shared.get(orders);
    if (known !== undefined) return known;
    const index = new RuleIndex();
    for (const rule of own) index.add(rule);
    this.#shared.set(orders, index);
    this.#ownRules += own.length;
    return index;
  }
}

/** Returns a key that identifies the subject and its rights. */
function subjectName(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion ${subject.id}`;
    case 'user':
      return JSON.stringify([subject.eauth ?? null, subject.name, ...subject.groups]);
    case 'project':
      return JSON.stringify(subject);
    case 'service':
    case 'token':
      return `${subject.kind} ${subject.name}`;
  }
}

/**
 * Returns the key under which requests of a subject are counted. It does not depend on the roles of
 * a Keystone user.
 */
export function rateLimitKey(subject: Subject): string {
  if (subject.kind !== 'project') return subjectName(subject);
  return `project ${subject.project.id} ${subject.user.id}`;
}

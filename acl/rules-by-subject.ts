/** Rules of a policy by the name of their subject, cached. */

import type { CompiledRule } from './compile-rule.ts';
import type { RuleAction } from './rule.ts';
import { RuleIndex, valueIn } from './rule-index.ts';
import type { Subject } from './types.ts';

/** Rules of a policy that may concern a subject. */
interface SubjectRules {
  readonly deny: readonly RuleIndex[];
  readonly allow: readonly RuleIndex[];
  readonly kind: Subject['kind'];
}

type Effect = 'allow' | 'deny';
/** By kind of subject, action and effect. */
type Group = `${Subject['kind']} ${RuleAction} ${Effect}`;

/** Subjects, and rules of their own, that are remembered; then all are forgotten. */
const maxSubjects = 50_000;
const maxOwnRules = 1_000_000;

/** Sorts the rules of a policy by whom they are about. */
export class RulesBySubject {
  readonly #ofEveryone = new Map<Group, RuleIndex>();
  readonly #ofSome = new Map<Group, CompiledRule[]>();
  /** By action, then by name. */
  readonly #known = new Map<string, Map<string, SubjectRules>>();
  /** By the places of its rules: minions of one kind have the same. */
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
    // A minion's id may look like the name of another kind of subject.
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

/** A name that no other subject has, nor the same one with other rights. */
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

/** By what rates count: the same whichever of their roles somebody comes with. */
export function rateLimitKey(subject: Subject): string {
  if (subject.kind !== 'project') return subjectName(subject);
  return `project ${subject.project.id} ${subject.user.id}`;
}

import { PolicyError } from './errors.ts';
import type { MinionTest, PolicySyntax, TextTest } from './policy-syntax.ts';
import type { PolicyRule, SubjectPattern, TextPatterns } from './rule.ts';
import { compileTexts, describeTexts, orPatternError } from './rule-patterns.ts';
import type { Subject } from './types.ts';

/**
 * Compiled form of the field `subject` of a rule. It tests whether the rule applies to a subject.
 */
export interface CompiledSubject {
  readonly kind: Subject['kind'];
  /**
   * Whether the rule covers every subject of its kind. Conditions on facts (grains, pillar,
   * nodegroups) are not considered.
   */
  readonly isEveryone: boolean;
  /**
   * Whether the rule matches the subject, without regard to grains, pillar and nodegroups. The
   * result never changes, so it may be cached.
   */
  readonly covers: (subject: Subject) => boolean;
  /**
   * Whether the current grains, pillar and nodegroups of the minion meet the conditions of the
   * rule.
   */
  readonly holds: (subject: Subject) => boolean;
}

const always = (): boolean => true;

/**
 * Fields of `subject` that select minions by facts or by a compound target, each with Salt's name
 * of this target type.
 */
const factSelectors = [
  ['grain', 'grain'],
  ['pillar', 'pillar'],
  ['nodegroup', 'nodegroup'],
  ['target', 'compound'],
] as const;

/** Whether the rule selects minions by grains, pillar, nodegroups or a compound target. */
export function restsOnFacts({ subject }: PolicyRule): boolean {
  return factSelectors.some(([key]) => subject[key] !== undefined);
}

/**
 * Compiles the subject of a rule.
 * @throws PolicyError
 */
export function compileSubject(
  { name: rule, effect, subject }: Pick<PolicyRule, 'name' | 'effect' | 'subject'>,
  syntax: PolicySyntax,
): CompiledSubject {
  const kind = kindOfSubject(subject);
  if (kind === undefined) throw mixedSubjectError(rule);
  const excepted = compileOptional(subject.except, syntax, rule, 'except');
  const isExcepted = (name: string): boolean => excepted?.(name) === true;
  if (kind === 'minion') {
    refuseGrainsAlone(rule, effect, subject);
    const named = compileOptional(subject.minion, syntax, rule, 'minion');
    return {
      kind,
      isEveryone: excepted === undefined && (named === undefined || subject.minion === '*'),
      covers: (it) => it.kind === kind && named?.(it.id) !== false && !isExcepted(it.id),
      holds: compileFacts({ rule, effect, subject }, syntax),
    };
  }
  if (kind === 'user') return compileUser(subject, syntax, rule, isExcepted);
  if (kind === 'project') return compileProject({ rule, effect, subject }, syntax, isExcepted);
  const named = compileOptional(subject[kind], syntax, rule, kind);
  return {
    kind,
    isEveryone: excepted === undefined && subject[kind] === '*',
    covers: (it) => it.kind === kind && named?.(it.name) === true && !isExcepted(it.name),
    holds: always,
  };
}

/** Returns the subject on one line, as the operator wrote it. */
export function describeSubject(subject: SubjectPattern): string {
  const { grain, pillar, nodegroup, target, eauth, ...named } = subject;
  const texts = { grain, pillar, nodegroup, target, eauth: eauth === '' ? '(none)' : eauth };
  return [
    ...Object.entries(named).flatMap(([key, patterns]) =>
      patterns === undefined ? [] : `${key} ${describeTexts(patterns)}`,
    ),
    ...Object.entries(texts).flatMap(([key, text]) => (text === undefined ? [] : `${key} ${text}`)),
  ].join(', ');
}

function compileUser(
  { user, group, eauth, except }: SubjectPattern,
  syntax: PolicySyntax,
  rule: string,
  isExcepted: TextTest,
): CompiledSubject {
  const named = compileOptional(user, syntax, rule, 'user');
  const inGroup = compileOptional(group, syntax, rule, 'group');
  return {
    kind: 'user',
    isEveryone: user === '*' && [group, eauth, except].every((it) => it === undefined),
    covers: (it) =>
      it.kind === 'user' &&
      named?.(it.name) !== false &&
      (inGroup === undefined || it.groups.some(inGroup)) &&
      (eauth === undefined || (it.eauth ?? '') === eauth) &&
      !isExcepted(it.name),
    holds: always,
  };
}

/** Id and name of a project, user or domain in Keystone. */
interface KeystoneName {
  readonly id: string;
  readonly name: string;
}

/** Keystone domain of `allow` rules that name no domain. */
const usualDomain = 'Default';

function compileProject(
  { rule, effect, subject }: { rule: string } & Pick<PolicyRule, 'effect' | 'subject'>,
  syntax: PolicySyntax,
  isExcepted: TextTest,
): CompiledSubject {
  const { project, role, user, except, domain = effect === 'deny' ? '*' : usualDomain } = subject;
  const isProject = compileOptional(project, syntax, rule, 'project');
  const isRole = compileOptional(role, syntax, rule, 'role');
  const isUser = compileOptional(user, syntax, rule, 'user');
  const isDomain = compileTexts(domain, syntax, { rule, field: 'subject.domain' });
  const isNamed = effect === 'deny' ? matchesKeystoneName : matchesUnambiguously;
  return {
    kind: 'project',
    isEveryone:
      domain === '*' &&
      (project === undefined || project === '*') &&
      [role, user, except].every((it) => it === undefined),
    covers: (it) =>
      it.kind === 'project' &&
      isNamed(it.project.domain, isDomain) &&
      isNamed(it.project, isProject) &&
      (isRole === undefined || it.roles.some(isRole)) &&
      (isUser === undefined || (isNamed(it.user, isUser) && isNamed(it.user.domain, isDomain))) &&
      !matchesKeystoneName(it.project, isExcepted),
    holds: always,
  };
}

/** Whether the test matches the id or the name. */
function matchesKeystoneName({ id, name }: KeystoneName, test: TextTest | undefined): boolean {
  return test === undefined || test(id) || test(name);
}

/**
 * Matches the ids that Keystone assigns: 32 hexadecimal digits (random), or 64 (digest of an LDAP
 * entry).
 */
const idForm = /^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i;

/**
 * Whether the test matches the id or the name of the entity. A name that looks like an id is not
 * tested. Otherwise a user could choose the id of another entity as a name, and match rules about
 * that entity.
 */
function matchesUnambiguously(entity: KeystoneName, test: TextTest | undefined): boolean {
  if (test === undefined || test(entity.id)) return true;
  if (idForm.test(entity.name)) return false;
  return test(entity.name);
}

function compileFacts(
  { rule, effect, subject }: { rule: string } & Pick<PolicyRule, 'effect' | 'subject'>,
  syntax: PolicySyntax,
): (subject: Subject) => boolean {
  const grain = compileTarget(subject.grain, 'grain', syntax, rule);
  const others = factSelectors
    .filter(([key]) => key !== 'grain')
    .flatMap(([key, type]) => compileTarget(subject[key], type, syntax, rule, key));
  if (grain.length + others.length === 0) return always;
  if (effect === 'deny') {
    return (it) =>
      it.kind === 'minion' && [...grain, ...others].every((test) => test.mayMean(it.id));
  }
  return (it) =>
    it.kind === 'minion' &&
    others.every((test) => test.isEntitled(it.id)) &&
    // A condition on grains only narrows a rule whose other selectors grant the right.
    grain.every((test) => test.claims(it.id));
}

function compileTarget(
  tgt: string | undefined,
  tgtType: string,
  syntax: PolicySyntax,
  rule: string,
  key: string = tgtType,
): MinionTest[] {
  if (tgt === undefined) return [];
  const place = { rule, field: `subject.${key}` };
  return [orPatternError(place, () => syntax.target(tgt, tgtType))];
}

function compileOptional(
  patterns: TextPatterns | undefined,
  syntax: PolicySyntax,
  rule: string,
  key: string,
): TextTest | undefined {
  if (patterns === undefined) return undefined;
  return compileTexts(patterns, syntax, { rule, field: `subject.${key}` });
}

/**
 * Returns the kind of subject that a rule applies to, or `undefined` if it names none or several
 * kinds.
 */
export function kindOfSubject(subject: SubjectPattern): Subject['kind'] | undefined {
  const { minion, grain, pillar, nodegroup, target, user, group, eauth, service, token } = subject;
  const ofProject = [subject.project, subject.role, subject.domain];
  // In a rule about projects, `user` is a user of Keystone.
  const isOfProject = ofProject.some((key) => key !== undefined);
  const kinds: Readonly<Record<Subject['kind'], readonly unknown[]>> = {
    minion: [minion, grain, pillar, nodegroup, target],
    user: isOfProject ? [group, eauth] : [user, group, eauth],
    project: ofProject,
    service: [service],
    token: [token],
  };
  const named = Object.entries(kinds).filter(([, keys]) => keys.some((key) => key !== undefined));
  const [first, ...more] = named.map(([kind]) => kind as Subject['kind']); // the keys of the literal above
  return more.length === 0 ? first : undefined;
}

function mixedSubjectError(rule: string): PolicyError {
  const problem = 'must name exactly one of: minions, users, a project, a service, a token';
  return new PolicyError('ERR_POLICY_FORM', { rule, field: 'subject' }, problem);
}

function refuseGrainsAlone(
  rule: string,
  effect: PolicyRule['effect'],
  { minion, grain, pillar, nodegroup, target }: SubjectPattern,
): void {
  const hasOthers = [minion, pillar, nodegroup, target].some((it) => it !== undefined);
  if (effect === 'deny' || grain === undefined || hasOthers) return;
  const problem =
    'grains alone are not sufficient, because a minion can claim any grain; also set `minion`, `pillar` or `nodegroup`';
  throw new PolicyError('ERR_POLICY_UNTRUSTED', { rule, field: 'subject.grain' }, problem);
}

/** Who a rule is about, compiled once. */
import { PolicyError } from './errors.ts';
import { compileTexts, describeTexts, orRefuse } from './patterns.ts';
import type { PolicyRule, SubjectPattern, TextPatterns } from './rule.ts';
import type { MinionTest, PolicySyntax, TextTest } from './syntax.ts';
import type { Subject } from './types.ts';

/** The subject of a rule. */
export interface CompiledSubject {
  readonly kind: Subject['kind'];
  /** Whether it is about every subject of its kind, but for facts. */
  readonly isEveryone: boolean;
  /** By names alone, which never change: may be remembered. */
  readonly covers: (subject: Subject) => boolean;
  /** By what is known of a minion now. */
  readonly holds: (subject: Subject) => boolean;
}

const always = (): boolean => true;

/** Selectors of minions by facts, with Salt's name of the target type. */
const factSelectors = [
  ['grain', 'grain'],
  ['pillar', 'pillar'],
  ['nodegroup', 'nodegroup'],
  ['target', 'compound'],
] as const;

/** @throws PolicyError */
export function compileSubject(
  { name: rule, effect, subject }: Pick<PolicyRule, 'name' | 'effect' | 'subject'>,
  syntax: PolicySyntax,
): CompiledSubject {
  const kind = kindOfSubject(subject);
  if (kind === undefined) throw unclear(rule);
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

/** The subject as an operator wrote it, for one line of text. */
export function describeSubject(subject: SubjectPattern): string {
  const { grain, pillar, nodegroup, target, eauth, ...named } = subject;
  const texts = { grain, pillar, nodegroup, target, eauth };
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
      (eauth === undefined || it.eauth === eauth) &&
      !isExcepted(it.name),
    holds: always,
  };
}

/** What Keystone says of a project, a user or a domain. */
interface KeystoneName {
  readonly id: string;
  readonly name: string;
}

/** Whose projects are meant where a rule that allows does not say. */
// protection: namesakes
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
  const isNamed = effect === 'deny' ? isMeant : isMeantSafely;
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
      !isMeant(it.project, isExcepted),
    holds: always,
  };
}

/** By id or by name. */
function isMeant({ id, name }: KeystoneName, test: TextTest | undefined): boolean {
  return test === undefined || test(id) || test(name);
}

/** Ids of Keystone's: random ones, and digests for what is in LDAP. */
const idForm = /^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i;

/** As {@link isMeant}, but for a name that could be another one's id: names are chosen, ids are not. */
function isMeantSafely(entity: KeystoneName, test: TextTest | undefined): boolean {
  if (test === undefined || test(entity.id)) return true;
  // protection: names-like-ids
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
    // Beside a selector that gives the right, so it only makes it narrower.
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
  return [orRefuse(place, () => syntax.target(tgt, tgtType))];
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

/** What a rule is about; `undefined`: nothing, or several kinds at once. */
export function kindOfSubject(subject: SubjectPattern): Subject['kind'] | undefined {
  const { minion, grain, pillar, nodegroup, target, user, group, eauth, service, token } = subject;
  const ofProject = [subject.project, subject.role, subject.domain];
  // Beside a project, a user is one of Keystone's.
  const isOfProject = ofProject.some((key) => key !== undefined);
  const kinds: Readonly<Record<Subject['kind'], readonly unknown[]>> = {
    minion: [minion, grain, pillar, nodegroup, target],
    user: isOfProject ? [group, eauth] : [user, group, eauth],
    project: ofProject,
    service: [service],
    token: [token],
  };
  const named = Object.entries(kinds).filter(([, keys]) => keys.some((key) => key !== undefined));
  const [first, ...more] = named.map(([kind]) => kind as Subject['kind']); // keys of the literal
  return more.length === 0 ? first : undefined;
}

function unclear(rule: string): PolicyError {
  const problem = 'expected either minions, or users, or a project, or a service, or a token';
  return new PolicyError('ERR_POLICY_FORM', { rule, field: 'subject' }, problem);
}

function refuseGrainsAlone(
  rule: string,
  effect: PolicyRule['effect'],
  { minion, grain, pillar, nodegroup, target }: SubjectPattern,
): void {
  const hasOthers = [minion, pillar, nodegroup, target].some((it) => it !== undefined);
  if (effect === 'deny' || grain === undefined || hasOthers) return;
  const problem = 'a minion can claim any grain; name minion, pillar or nodegroup as well';
  throw new PolicyError('ERR_POLICY_UNTRUSTED', { rule, field: 'subject.grain' }, problem);
}

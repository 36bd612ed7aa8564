import { TokenBuckets } from '#runtime';
import { compileDataSchema } from './data-schema.ts';
import { PolicyError } from './errors.ts';
import { indexKeyOf, type RuleIndexKey } from './index-keys.ts';
import { parseRule, ruleFormProblems } from './parse-rule.ts';
import {
  grainsGiveNoRight,
  type MinionTest,
  type PolicyEnvironment,
  type PolicySyntax,
  type TextTest,
} from './policy-syntax.ts';
import { mustBeNamed } from './powerful-functions.ts';
import { parseRate } from './rate.ts';
import type {
  CallPattern,
  PolicyRule,
  RuleAction,
  SignalPattern,
  SubjectPattern,
  TextPatterns,
} from './rule.ts';
import {
  asList,
  compileArguments,
  compileTexts,
  describeTexts,
  orPatternError,
  type RuleField,
} from './rule-patterns.ts';
import { compileTagPattern } from './tag-patterns.ts';
import type { Call, EventResource, Subject } from './types.ts';

/** The subject of a rule. */
interface CompiledSubject {
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
function compileSubject(
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

/** The subject as an operator wrote it, for one line of text. */
function describeSubject(subject: SubjectPattern): string {
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

/** By id or by name. */
function matchesKeystoneName({ id, name }: KeystoneName, test: TextTest | undefined): boolean {
  return test === undefined || test(id) || test(name);
}

/** Ids of Keystone's: random ones, and digests for what is in LDAP. */
const idForm = /^(?:[0-9a-f]{32}|[0-9a-f]{64})$/i;

/** As {@link matchesKeystoneName}, but for a name that could be another one's id: names are chosen, ids are not. */
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

function mixedSubjectError(rule: string): PolicyError {
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

/** One thing of what is asked: a job with several functions is asked about one by one. */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation. */
  readonly text: string;
  /** `undefined`: its arguments are not known yet. */
  readonly call?: Call;
  /** What it is for, or whose mine it is; `undefined`: not known. */
  readonly minions?: readonly string[] | undefined;
  readonly event?: EventResource;
}

/** What a rule says of a request; each tells what is in the way, if anything is. */
interface CompiledResource {
  /** One for each of its patterns. */
  readonly keys: readonly RuleIndexKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  /** But for the minions. */
  readonly obstacle: (request: Request) => string | undefined;
  /** The minions that it is limited to. Default: none is left out. */
  readonly among?: MinionLimit;
}

/** Which minions a rule is limited to. */
interface MinionLimit extends Pick<MinionTest, 'isEntitled' | 'mayMean'> {
  /** What is in the way where a minion is another one. */
  readonly obstacle: string;
  /** The compound target that names them. */
  readonly within?: string;
  /** Whether part of the target goes by grains alone and therefore permits nothing. */
  readonly restsOnGrains?: boolean;
}

/** A rule that can be asked. */
export interface CompiledRule {
  readonly rule: PolicyRule;
  /** Place in the policy; the first one that decides is named. */
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly resource: CompiledResource;
  /** Milliseconds since 1970; `Infinity`: never. */
  readonly expiresAt: number;
  readonly meter: TokenBuckets | undefined;
  /** Whether targets may ask for the pillar of minions that it permits. */
  readonly showsPillar: boolean;
  /** Why it decides, in one sentence. */
  readonly reason: string;
}

const reservedRuleNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/** @throws PolicyError */
export function compileRule(
  rule: PolicyRule,
  order: number,
  world: PolicyEnvironment,
): CompiledRule {
  refuseContradictions(rule);
  return {
    rule,
    order,
    subject: compileSubject(rule, world),
    resource: compileResource(rule, world),
    expiresAt: rule.expires === undefined ? Infinity : parseTime(rule.expires, rule.name),
    meter: rule.rate === undefined ? undefined : new TokenBuckets(parseRate(rule.rate, rule.name)),
    showsPillar: showsPillar(rule),
    reason: `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`,
  };
}

/** @throws PolicyError */
function refuseContradictions(rule: PolicyRule): void {
  if (reservedRuleNames.has(rule.name)) {
    const problem = 'decisions without a rule have this name; choose another one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies has no rate');
  }
  if (rule.effect === 'deny' && showsPillar(rule)) {
    const place = { rule: rule.name, field: 'resource.facts' };
    throw new PolicyError('ERR_POLICY_FORM', place, 'a rule that denies shows no facts');
  }
}

/** Every mistake of a rule: in its form, and in the patterns of what has the right form. */
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

/** What is wrong with the patterns of a rule, of each part the first. */
export function rulePatternProblems(
  rule: PolicyRule,
  world: PolicyEnvironment,
): readonly PolicyError[] {
  const { name, rate, expires } = rule;
  const problems = [
    ...problemOf(() => compileSubject(rule, world)),
    ...problemOf(() => compileResource(rule, world)),
    ...(rate === undefined ? [] : problemOf(() => parseRate(rate, name))),
    ...(expires === undefined ? [] : problemOf(() => parseTime(expires, name))),
  ];
  return problems.length > 0 ? problems : problemOf(() => refuseContradictions(rule));
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

/** Whether targets may ask for the pillar of the minions that a rule permits. */
export function showsPillar({ resource }: PolicyRule): boolean {
  return 'facts' in resource && resource.facts === 'pillar';
}

const verbs: Readonly<Record<PolicyRule['effect'], string>> = { allow: 'has', deny: 'has not' };

function describeResource(rule: PolicyRule): string {
  return `${rule.action} ${describeTexts(textsOf(rule))}`;
}

/** The texts that a rule is about: tags, functions, paths, operations. */
export function textsOf(rule: PolicyRule): TextPatterns {
  switch (rule.action) {
    case 'signal':
    case 'subscribe':
      return rule.resource.tag;
    case 'file-send':
      return rule.resource.path;
    case 'pillar':
      return rule.resource.environment;
    case 'key':
      return rule.resource.operation;
    default:
      return rule.resource.fun;
  }
}

function compileResource(rule: PolicyRule, world: PolicyEnvironment): CompiledResource {
  const place = (field: string): RuleField => ({ rule: rule.name, field: `resource.${field}` });
  switch (rule.action) {
    case 'signal':
      return compileSignal(rule.resource, rule.effect, world, place);
    case 'publish':
      return compilePublish(rule, world, place);
    case 'runner':
    case 'wheel':
      return byName(rule, compileCall(rule.resource, rule.effect, world, place));
    case 'command':
      return compileWithin(rule, world, place);
    case 'mine': {
      const { fun, owner = '*' } = rule.resource;
      const compiled = byText(fun, world, place('fun'));
      if (owner === '*') return compiled;
      const isOwner = compileTexts(owner, world, place('owner'));
      const obstacle = 'the owner is another one';
      return { ...compiled, among: { isEntitled: isOwner, mayMean: isOwner, obstacle } };
    }
    case 'file-send':
      return byText(rule.resource.path, world, place('path'));
    case 'pillar':
      return byText(rule.resource.environment, world, place('environment'));
    case 'key':
      return byText(rule.resource.operation, world, place('operation'));
    case 'subscribe':
      return byText(rule.resource.tag, world, place('tag'));
  }
}

function compileSignal(
  { tag, schema, bytes = Infinity }: SignalPattern,
  effect: PolicyRule['effect'],
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  // A glob of wildcards alone would permit every tag; then one might as well not ask.
  if (effect === 'allow' && !isSpecificTagGlob(tag)) {
    throw new PolicyError('ERR_POLICY_PATTERN', place('tag'), 'expected a letter or a digit in it');
  }
  const pattern = compileTagPattern(tag, world, place('tag'));
  const fits = schema === undefined ? undefined : compileDataSchema(schema, world, place('schema'));
  return {
    keys: [pattern.key],
    meansText: pattern.matches,
    obstacle: ({ event }) => {
      if (bytes < (event?.bytes?.() ?? 0)) return `it is larger than ${bytes} bytes`;
      return fits?.(event?.data) === false ? 'its data do not fit the schema' : undefined;
    },
  };
}

/** Whether a glob on tags names something of its own. */
export function isSpecificTagGlob(glob: string): boolean {
  return /[\p{L}\p{N}]/u.test(glob.replace(/\[[^\]]*\]/g, ''));
}

function compilePublish(
  rule: PolicyRule & { readonly action: 'publish' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const compiled = compileWithin(rule, world, place);
  const { environment = '*' } = rule.resource;
  const inEnvironment = compileTexts(environment, world, place('environment'));
  return {
    ...compiled,
    obstacle: (request) => {
      const given = request.call?.kwargs.get('saltenv');
      if (given !== undefined && !inEnvironment(given)) return 'the environment is another one';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { effect, resource }: PolicyRule & { readonly action: 'publish' | 'command' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const { within, ...call } = resource;
  const compiled = compileCall(call, effect, world, place);
  if (within === undefined) return compiled;
  const test =
    effect === 'deny'
      ? orPatternError(place('within'), () => world.target(within, 'compound'))
      : (orUndefined(() => world.target(within, 'compound')) ?? noMinions);
  const restsOnGrains = effect === 'allow' && test.restsOnGrains === true;
  const limit = `not all of the target is within ${within}`;
  const obstacle = restsOnGrains ? `${limit}; ${grainsGiveNoRight}` : limit;
  return { ...compiled, among: { ...test, obstacle, within, restsOnGrains } };
}

const noMinions: Pick<MinionTest, 'isEntitled' | 'mayMean' | 'restsOnGrains'> = {
  isEntitled: () => false,
  mayMean: () => false,
};

/** A target of Salt's options that cannot be read permits nothing, and takes nothing else away. */
function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function compileCall(
  { fun, arguments: conditions }: CallPattern,
  effect: PolicyRule['effect'],
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const meets = compileArguments(conditions, world, place('arguments'));
  const isMetUnknown = effect === 'allow' || conditions === undefined;
  return {
    ...byText(fun, world, place('fun')),
    obstacle: ({ call }) => {
      const isMet = call === undefined ? isMetUnknown : meets(call);
      return isMet ? undefined : 'the arguments are not those that it asks for';
    },
  };
}

/** Some functions are permitted only where they are named. */
function byName(
  { effect, action, resource: { fun } }: PolicyRule & { readonly action: 'runner' | 'wheel' },
  compiled: CompiledResource,
): CompiledResource {
  if (effect === 'deny') return compiled;
  return {
    ...compiled,
    obstacle: (request) => {
      if (mustBeNamed(action, request.text, fun)) return `it does not name ${request.text} itself`;
      return compiled.obstacle(request);
    },
  };
}

function byText(
  patterns: TextPatterns,
  world: PolicyEnvironment,
  place: RuleField,
): CompiledResource {
  return {
    keys: asList(patterns).map(indexKeyOf),
    meansText: compileTexts(patterns, world, place),
    obstacle: () => undefined,
  };
}

function parseTime(text: string, rule: string): number {
  const isIso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const time = isIso ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  const problem = 'expected a date, or a time with its zone: 2027-01-31, 2027-01-31T12:00:00Z';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'expires' }, problem);
}

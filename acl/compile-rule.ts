import { TokenBuckets } from '#runtime';
import { isAccepted, markAccepted } from './accepted-rules.ts';
import { compileDataSchema } from './data-schema.ts';
import { PolicyError } from './errors.ts';
import { indexKeyOf, type RuleIndexKey } from './index-keys.ts';
import { policyLimits } from './limits.ts';
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

/**
 * Part of a question to the policy that is decided separately. For example, a job with several
 * functions becomes one request for each function.
 */
export interface Request {
  readonly subject: Subject;
  readonly action: RuleAction;
  /** Tag, function, path or operation that the request names. */
  readonly text: string;
  /** Function and arguments, or `undefined` if the arguments are not yet known. */
  readonly call?: Call;
  /**
   * Ids of the targeted minions. For a query of mine data, the id of the minion that owns the data.
   * `undefined` if they are not known.
   */
  readonly minions?: readonly string[] | undefined;
  /**
   * Id of the project for which the request creates or ends an enrolment. Absent in all other
   * requests. If absent, each minion counts as belonging to the project for which it was enrolled.
   */
  readonly project?: string | undefined;
  readonly event?: EventResource;
}

/**
 * Compiled form of the field `resource` of a rule. It tests whether the rule applies to a request.
 */
export interface CompiledResource {
  /** Keys for the rule index, one for each pattern. */
  readonly keys: readonly RuleIndexKey[];
  readonly meansText: (text: string, subject: Subject) => boolean;
  /**
   * Returns the reason why the rule does not apply to the request, or `undefined` if it applies.
   * Does not consider the minions of the request.
   */
  readonly obstacle: (request: Request) => string | undefined;
  /** Minions that the rule is limited to. Default: all. */
  readonly among?: MinionLimit;
  /**
   * Whether a minion was enrolled for the Keystone project that makes the request. Present only in
   * `allow` rules for named commands, and only if the rule has no `within`.
   */
  readonly isOwnGuest?: (request: GuestRequest, id: string) => boolean;
}

type GuestRequest = Pick<Request, 'project' | 'subject'>;

/** Restriction of a rule to some minions. */
interface MinionLimit extends Pick<MinionTest, 'isEntitled' | 'mayMean'> {
  /** Message to a sender whose request names a minion to which the rule does not apply. */
  readonly obstacle: string;
  /** Compound target. The rule applies only to minions that match it. */
  readonly within?: string;
  /**
   * Whether a minion can match `within`, or one of its alternatives, by its grains alone. The rule
   * grants nothing to minions that match only in this way, because a minion can report any grains.
   */
  readonly restsOnGrains?: boolean;
}

/**
 * Whether the rule covers only machines that were enrolled for the subject's own project. True if
 * the subject acts for a project, and the rule allows named commands without `within`.
 */
export function isForOwnGuests(
  { resource: { among, isOwnGuest } }: CompiledRule,
  subject: Subject,
): boolean {
  return among === undefined && isOwnGuest !== undefined && subject.kind === 'project';
}

/**
 * Whether an `allow` rule covers a minion. If the rule has `within` or `owner`, the minion must
 * match it. If {@link isForOwnGuests} is true for the rule, the minion must be enrolled for the
 * subject's project. Any other rule covers all minions.
 */
export function mayReferTo(rule: CompiledRule, request: GuestRequest, id: string): boolean {
  const { among, isOwnGuest } = rule.resource;
  if (among !== undefined) return among.isEntitled(id);
  return !isForOwnGuests(rule, request.subject) || isOwnGuest?.(request, id) === true;
}

/** A rule with everything that a decision needs: its tests, its expiry and its rate limit. */
export interface CompiledRule {
  readonly rule: PolicyRule;
  /**
   * Position in the policy. If several rules decide a question, the one with the lowest position is
   * reported.
   */
  readonly order: number;
  readonly subject: CompiledSubject;
  readonly resource: CompiledResource;
  /** Time at which the rule expires, in milliseconds since 1970. `Infinity` if it never expires. */
  readonly expiresAt: number;
  readonly meter: TokenBuckets | undefined;
  /**
   * Whether targets may query the pillar of the minions that this rule covers (`facts: pillar`).
   */
  readonly showsPillar: boolean;
  /** Explanation of a decision by this rule, in one sentence. */
  readonly reason: string;
}

const reservedRuleNames: ReadonlySet<string> = new Set(['default-deny', 'learning']);

/**
 * Compiles a rule.
 * @throws PolicyError
 */
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
    expiresAt: expiryOf(rule),
    meter: meterOf(rule),
    showsPillar: showsPillar(rule),
    reason: reasonOf(rule),
  };
}

/** Returns the expiry of a rule in milliseconds since 1970, or `Infinity`. */
export function expiryOf({ expires, name }: PolicyRule): number {
  return expires === undefined ? Infinity : parseTime(expires, name);
}

/** Returns counters for the rate limit of a rule, or `undefined` if the rule has no rate limit. */
export function meterOf({ rate, name }: PolicyRule): TokenBuckets | undefined {
  if (rate === undefined) return undefined;
  return new TokenBuckets(policyLimits.ruleRate, undefined, parseRate(rate, name));
}

/** Returns the explanation of a decision by a rule, in one sentence. */
export function reasonOf(rule: PolicyRule): string {
  return `${describeSubject(rule.subject)} ${verbs[rule.effect]} ${describeResource(rule)}`;
}

/**
 * Rejects fields that contradict each other.
 * @throws PolicyError
 */
function refuseContradictions(rule: PolicyRule): void {
  if (reservedRuleNames.has(rule.name)) {
    const problem = 'this name is reserved for decisions without a rule; choose a different one';
    throw new PolicyError('ERR_POLICY_FORM', { rule: rule.name, field: '' }, problem);
  }
  if (rule.effect === 'deny' && rule.rate !== undefined) {
    const place = { rule: rule.name, field: 'rate' };
    throw new PolicyError(
      'ERR_POLICY_FORM',
      place,
      'a rule that denies cannot have a rate; remove the rate',
    );
  }
  if (rule.effect === 'deny' && showsPillar(rule)) {
    const place = { rule: rule.name, field: 'resource.facts' };
    throw new PolicyError(
      'ERR_POLICY_FORM',
      place,
      'a rule that denies cannot have the field `facts`; remove the field',
    );
  }
}

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

/** Whether targets may query the pillar of the minions that the rule covers (`facts: pillar`). */
export function showsPillar({ resource }: PolicyRule): boolean {
  return 'facts' in resource && resource.facts === 'pillar';
}

const verbs: Readonly<Record<PolicyRule['effect'], string>> = {
  allow: 'is allowed',
  deny: 'is denied',
};

function describeResource(rule: PolicyRule): string {
  return `${rule.action} ${describeTexts(textsOf(rule))}`;
}

/** Returns the texts that a rule matches: tags, functions, paths or operations. */
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

export function compileResource(rule: PolicyRule, world: PolicyEnvironment): CompiledResource {
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
      const obstacle =
        'the field `owner` of the rule does not match the minion that owns the mine data';
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
  // A glob of wildcards only would allow every tag and make the rule meaningless.
  if (effect === 'allow' && !isSpecificTagGlob(tag)) {
    throw new PolicyError('ERR_POLICY_PATTERN', place('tag'), 'must contain a letter or a digit');
  }
  const pattern = compileTagPattern(tag, world, place('tag'));
  const fits = schema === undefined ? undefined : compileDataSchema(schema, world, place('schema'));
  return {
    keys: [pattern.key],
    meansText: pattern.matches,
    obstacle: ({ event }) => {
      if (bytes < (event?.bytes?.() ?? 0)) return `the event is larger than ${bytes} bytes`;
      return fits?.(event?.data) === false
        ? 'the data of the event does not match the schema'
        : undefined;
    },
  };
}

/** Whether a tag glob contains a letter or digit. Such a glob does not match every tag. */
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
      if (given !== undefined && !inEnvironment(given))
        return 'the saltenv of the request does not match the field `environment` of the rule';
      return compiled.obstacle(request);
    },
  };
}

function compileWithin(
  { effect, action, resource }: PolicyRule & { readonly action: 'publish' | 'command' },
  world: PolicyEnvironment,
  place: (field: string) => RuleField,
): CompiledResource {
  const { within, ...call } = resource;
  const compiled = compileCall(call, effect, world, place);
  if (within === undefined) {
    if (effect === 'deny' || action === 'publish') return compiled;
    return {
      ...compiled,
      isOwnGuest: ({ subject, project }, id) =>
        subject.kind === 'project' && (project ?? world.projectOf?.(id)) === subject.project.id,
    };
  }
  const test =
    effect === 'deny'
      ? orPatternError(place('within'), () => world.target(within, 'compound'))
      : (orUndefined(() => world.target(within, 'compound')) ?? noMinions);
  const restsOnGrains = effect === 'allow' && test.restsOnGrains === true;
  const limit = `the target contains minions outside ${within}`;
  const obstacle = restsOnGrains ? `${limit}; ${grainsGiveNoRight}` : limit;
  return { ...compiled, among: { ...test, obstacle, within, restsOnGrains } };
}

const noMinions: Pick<MinionTest, 'isEntitled' | 'mayMean' | 'restsOnGrains'> = {
  isEntitled: () => false,
  mayMean: () => false,
};

/**
 * Returns the result of `read`, or `undefined` if the target cannot be parsed. An invalid target in
 * Salt's options grants nothing, and must not make other grants fail.
 */
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
      return isMet ? undefined : 'the arguments do not meet the conditions of the rule';
    },
  };
}

/**
 * Makes an `allow` rule permit certain functions only if it contains their full names, without
 * wildcards. {@link mustBeNamed} determines these functions. For a `deny` rule, returns `compiled`
 * unchanged.
 */
function byName(
  { effect, action, resource: { fun } }: PolicyRule & { readonly action: 'runner' | 'wheel' },
  compiled: CompiledResource,
): CompiledResource {
  if (effect === 'deny') return compiled;
  return {
    ...compiled,
    obstacle: (request) => {
      if (mustBeNamed(action, request.text, fun))
        return `the rule does not name ${request.text} explicitly`;
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
  const problem = 'must be a date or a time with a zone: 2027-01-31, 2027-01-31T12:00:00Z';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'expires' }, problem);
}

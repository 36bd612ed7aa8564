import { type CompiledRule, isSpecificTagGlob, literalGlob, type Request } from './compile-rule.ts';
import { emptyPolicy, type Policy, type RuleIndex, rateLimitKey } from './policy.ts';
import type { PolicyRule, RuleAction, TextPattern } from './rule.ts';
import type {
  Action,
  BuiltInRule,
  Call,
  Decision,
  Question,
  QuestionOf,
  RuleOrigin,
  Subject,
} from './types.ts';

// What an unmodified minion says of itself without being asked, under its own id. It works
// without any policy; everything else that a minion may emit needs a rule of the operator's.

const plainTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const progressTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/prog\/(.+)\/\d{1,10}$/s;
const jobStartTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/start\/(.+)$/s;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const forbiddenCharacters = /[\u0000-\u001f\u007f]/;
const maxTagLength = 512;

function isMalformed(tag: string): boolean {
  return tag === '' || tag.length > maxTagLength || forbiddenCharacters.test(tag);
}

/** Asked before anything else. */
const signalGuards: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'well-formed-tag',
    effect: 'deny',
    judge: ({ resource }) =>
      isMalformed(resource.tag)
        ? `a tag has 1 to ${maxTagLength} characters and no control characters`
        : undefined,
  },
];

/** What minions may without a rule of the operator's. */
const lifecycleSignals: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'own-lifecycle',
    effect: 'allow',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' &&
      (plainTags.has(resource.tag) || resource.tag === `salt/minion/${subject.id}/start`)
        ? 'a minion may say that it started, lives, or failed'
        : undefined,
  },
  {
    name: 'own-beacons',
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const id = idOf(subject);
      if (id === undefined) return undefined;
      const prefix = `salt/beacon/${id}/`;
      return resource.tag.startsWith(prefix) && resource.tag.length > prefix.length
        ? 'a minion may report its own beacons'
        : undefined;
    },
  },
  ownJobSignal(
    'own-progress',
    progressTag,
    'a minion may report the progress of a job that was published to it',
  ),
  // `start_event` of 3008 and later.
  ownJobSignal(
    'own-job-start',
    jobStartTag,
    'a minion may report that it begins a job that was published to it',
  ),
];

const lifecycleRuleNames: ReadonlySet<string> = new Set(lifecycleSignals.map(({ name }) => name));

/** Whether a minion may do so without a rule of the operator's. */
export function isLifecycleDecision({ rule, origin }: Decision): boolean {
  return origin === undefined && lifecycleRuleNames.has(rule);
}

/** @param form - of tags; its groups are the jid and the id of the minion */
function ownJobSignal(name: string, form: RegExp, reason: string): BuiltInRule<'signal'> {
  return {
    name,
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const [, jid, id] = form.exec(resource.tag) ?? [];
      const isOwn = jid !== undefined && id === idOf(subject);
      return isOwn && resource.wasPublishedToSubject(jid) ? reason : undefined;
    },
  };
}

function idOf(subject: Subject): string | undefined {
  return subject.kind === 'minion' ? subject.id : undefined;
}

// Reserved tags: the master fires them itself, and reactors trust them. No rule permits minions to
// emit them.

/** Where a master fires events of its own [salt.utils.event tagify, and its older tags]. */
const reservedPrefixes: readonly string[] = [
  'salt/auth',
  'salt/batch',
  'salt/beacon',
  'salt/cloud',
  'salt/event',
  'salt/fileserver',
  'salt/job',
  'salt/key',
  'salt/minion',
  'salt/netapi',
  'salt/presence',
  'salt/queue',
  'salt/run',
  'salt/stats',
  'salt/syndic',
  'salt/wheel',
  'saltbridge',
  'cluster',
  'minion/refresh',
  'resource/refresh',
];

/** One look at a tag, because every signal that needs a rule is asked about it. */
const reservedBeginning = new RegExp(`^(?:${reservedPrefixes.join('|')})(?:/|$)`);
const reservedTags: ReadonlySet<string> = new Set(['auth', 'key', 'new_job', 'salt_error']);
const jidTag = /^\d{20}(_|$)/;
const stateResult = /^salt\/state_result\/([^/]+)\//;

/** Whether only the master fires this tag, so that no grant can be about it. */
export function isReservedTag(tag: string): boolean {
  return reservedBeginning.test(tag) || reservedTags.has(tag) || jidTag.test(tag);
}

/** Asked before the operator's rules that permit. */
const signalLimits: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'masters-own-tags',
    effect: 'deny',
    // protection: masters-tags
    judge: ({ resource }) =>
      isReservedTag(resource.tag) ? 'the tag is one that only the master fires' : undefined,
  },
  {
    /** `fire_event` of a state puts the id into the tag. [salt.state State.event] */
    name: 'own-state-results',
    effect: 'deny',
    judge: ({ subject, resource }) => {
      const id = stateResult.exec(resource.tag)?.[1];
      return id === undefined || (subject.kind === 'minion' && id === subject.id)
        ? undefined
        : 'a minion may report results of its own states alone';
    },
  },
];

// Guards: denied whatever rules grant.

const publishGuards: readonly BuiltInRule<'publish'>[] = [
  {
    name: 'no-publishing-of-publishing',
    effect: 'deny',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' && resource.calls.some(({ fun }) => fun.startsWith('publish.'))
        ? 'a published job may not publish another'
        : undefined,
  },
];

const mineGuards: readonly BuiltInRule<'mine'>[] = [
  {
    name: 'allow_tgt',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.isAllowedByOwner?.() === false ? 'its owner keeps it for others' : undefined,
  },
];

// Returns: accepted for jobs that were published to the sender, and for its self-made jobs.

type Fun = string | readonly string[];

function isSameFun(published: Fun, returned: Fun): boolean {
  if (published === returned) return true;
  const [left, right] = [[published].flat(), [returned].flat()];
  // protection: another-function
  return left.length === right.length && left.every((fun, index) => fun === right[index]);
}

const returnRules: readonly BuiltInRule<'return'>[] = [
  {
    name: 'own-resource',
    effect: 'deny',
    judge: ({ subject, resource: { managed } }) =>
      managed === undefined || managed.isOwn
        ? undefined
        : `${subject.id} has not registered the resource ${managed.id}`,
  },
  {
    name: 'self-made-job',
    effect: 'allow',
    judge: ({ resource }) =>
      resource.jid === 'req' ? 'a minion may report a job that it started itself' : undefined,
  },
  {
    name: 'known-job',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job === undefined ? `no job ${resource.jid} was published` : undefined,
  },
  {
    name: 'addressee-only',
    effect: 'deny',
    // protection: returns-for-others
    judge: ({ subject, resource }) =>
      resource.job?.minions.has(subject.id)
        ? undefined
        : `job ${resource.jid} was not published to ${subject.id}`,
  },
  {
    name: 'published-function',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job !== undefined && !isSameFun(resource.job.fun, resource.fun)
        ? `job ${resource.jid} was published for another function`
        : undefined,
  },
  {
    name: 'published-to-sender',
    effect: 'allow',
    judge: () => 'the job was published to this minion',
  },
];

interface Verdict {
  readonly decision: Decision;
  /** The rules of the policy that permit, one for each function. */
  readonly used: readonly CompiledRule[];
}

const noRules: readonly CompiledRule[] = [];

/**
 * The one decision: may this subject do this? First come bounds that no policy moves, then rules
 * that deny, then what a minion may without a rule, then rules that allow; everything else is
 * denied. Deny is an answer like any other: the function never throws. A rule with a rate is used
 * up by it.
 * @param policy what the operator permits; default: nothing beyond a minion's lifecycle
 */
export function decide(question: Question, policy: Policy = emptyPolicy): Decision {
  const { decision, used } = evaluateQuestion(question, policy);
  for (const rule of used) {
    if (rule.meter?.tryTake(rateLimitKey(question.subject), policy.now()) === false) {
      return denied(question, `${rule.rule.name}: ${rateObstacle}`);
    }
  }
  return decision;
}

/**
 * Whether some rule of the policy permits this subject anything of the kind.
 * @param texts what is asked for, such as functions: each must be meant by a rule
 */
export function hasRules(
  subject: Subject,
  action: RuleAction,
  policy: Policy,
  texts: readonly string[] = [],
): boolean {
  const { allow } = policy.ofSubjects.of(subject, action);
  const isMeant = (text: string): boolean =>
    allow.some(
      (index) => index.first(text, (it) => it.resource.meansText(text, subject)) !== undefined,
    );
  return allow.length > 0 && texts.every(isMeant);
}

/**
 * Whether some rule may permit this subject a named command, with some parameters and for some
 * minions, and none denies it whatever they are.
 */
export function mayCallCommand(subject: Subject, command: string, policy: Policy): boolean {
  const request: Request = { subject, action: 'command', text: command };
  const now = policy.now();
  const isAbout = (it: CompiledRule): boolean =>
    it.resource.meansText(command, subject) && now < it.expiresAt && it.subject.holds(subject);
  const { deny, allow } = policy.ofSubjects.of(subject, 'command');
  const isDenied = firstOf(deny, request, (it) => isAbout(it) && isUnconditional(it));
  return isDenied === undefined && firstOf(allow, request, isAbout) !== undefined;
}

function isUnconditional({ rule }: CompiledRule): boolean {
  return (
    rule.action === 'command' &&
    rule.resource.arguments === undefined &&
    rule.resource.within === undefined
  );
}

/**
 * Whether a rule that allows could permit this: what is asked is neither malformed nor somebody
 * else's, nor a tag that no rule can be about.
 */
export function isGrantable(question: Question): boolean {
  if (question.action === 'return' || applyBuiltInLimits(question) !== undefined) return false;
  if (question.action !== 'signal') return true;
  const isBound = firstThatApplies(signalLimits, question) !== undefined;
  return !isBound && isSpecificTagGlob(literalGlob(question.resource.tag));
}

/** The result of {@link decide}, without consuming a rate. */
function evaluateQuestion(question: Question, policy: Policy): Verdict {
  const bounded = applyBuiltInLimits(question);
  if (bounded !== undefined) return { decision: bounded, used: noRules };
  if (question.action === 'return') return { decision: denied(question), used: noRules };
  const requests = requestsOf(question);
  const { deny, allow } = policy.ofSubjects.of(question.subject, question.action);
  const now = policy.now();
  for (const request of deny.length === 0 ? [] : requests) {
    const rule = firstOf(deny, request, (it) => obstacleTo(it, request, now) === undefined);
    if (rule !== undefined) return { decision: toDecision(rule), used: noRules };
  }
  // protection: nobody-left
  if (hasNoTargets(question))
    return { decision: denied(question, noTargetsObstacle), used: noRules };
  const builtIn = applySignalRules(question, allow.length > 0);
  if (builtIn !== undefined) return { decision: builtIn, used: noRules };
  return applyAllowRules(question, requests, allow, now);
}

function applyAllowRules(
  question: Question,
  requests: readonly Request[],
  allow: readonly RuleIndex[],
  now: number,
): Verdict {
  const used: CompiledRule[] = [];
  // protection: first-function-only
  for (const request of requests) {
    let obstacle: string | undefined;
    const rule = firstOf(allow, request, (it) => {
      const problem = obstacleTo(it, request, now);
      if (problem !== undefined && problem !== otherTextObstacle)
        obstacle ??= `${it.rule.name}: ${problem}`;
      return problem === undefined;
    });
    const rules = rule === undefined ? rulesAllowingTogether(allow, request, now) : [rule];
    // protection: default-allow-1
    if (rules.length === 0) return { decision: denied(question, obstacle), used: noRules };
    used.push(...rules);
  }
  const [first, ...more] = used;
  if (first === undefined) return { decision: denied(question), used: noRules };
  if (more.length === 0) return { decision: toDecision(first), used };
  const reason = [...new Set(used.map((rule) => rule.reason))].join('; ');
  return { decision: { ...toDecision(first), reason }, used };
}

/** The first rules that together permit it, each on some of its minions; none: there are no such. */
function rulesAllowingTogether(
  allow: readonly RuleIndex[],
  request: Request,
  now: number,
): CompiledRule[] {
  const { minions = [] } = request;
  if (minions.length < 2) return [];
  const rules = rulesOn(allow, request, now);
  const used = new Set<CompiledRule>();
  for (const id of minions) {
    const rule = rules.find(({ resource: { among } }) => among?.isEntitled(id) !== false);
    if (rule === undefined) return [];
    used.add(rule);
  }
  return [...used];
}

/** The rules that apply to a request on the minions that they are limited to, in their order. */
function rulesOn(indexes: readonly RuleIndex[], request: Request, now: number): CompiledRule[] {
  return indexes
    .flatMap((index) =>
      index.all(request.text, (it) => obstacleBesideMinions(it, request, now) === undefined),
    )
    .sort((a, b) => a.order - b.order);
}

/** The rule means another text: it has nothing to do with the request. */
const otherTextObstacle = 'it is about something else';
function hasNoTargets({ action, resource }: Question): boolean {
  if (action !== 'publish' && action !== 'command') return false;
  return resource.minions?.length === 0;
}

/** Then nothing says that the subject may do this to anybody. */
const noTargetsObstacle = 'the target means none of the minions that rules name';
const rateObstacle = 'its rate is used up';

/** What keeps a rule about this subject from applying; `undefined`: nothing. */
function obstacleTo(it: CompiledRule, request: Request, now: number): string | undefined {
  return obstacleBesideMinions(it, request, now) ?? obstacleOfMinions(it, request);
}

function obstacleOfMinions(
  { rule, resource: { among } }: CompiledRule,
  { action, minions }: Request,
): string | undefined {
  if (among === undefined) return undefined;
  if (rule.effect === 'deny') return minions?.some(among.mayMean) ? undefined : among.obstacle;
  // A function of the mine may be asked for where some owner's may be read.
  if (minions === undefined) return action === 'mine' ? undefined : among.obstacle;
  return minions.every(among.isEntitled) ? undefined : among.obstacle;
}

function obstacleBesideMinions(
  it: CompiledRule,
  request: Request,
  now: number,
): string | undefined {
  if (!it.resource.meansText(request.text, request.subject)) return otherTextObstacle;
  if (now >= it.expiresAt) return 'it has expired';
  if (!it.subject.holds(request.subject)) return 'the minion is not one that it means';
  const obstacle = it.resource.obstacle(request);
  if (obstacle !== undefined) return obstacle;
  const isLeft = it.meter?.has(rateLimitKey(request.subject), now) ?? true;
  return isLeft ? undefined : rateObstacle;
}

/** Everything that keeps a rule from applying; whom it is about comes first. */
function obstaclesTo(it: CompiledRule, request: Request, now: number): string[] {
  const { subject, text } = request;
  const isAbout = it.subject.covers(subject) && it.subject.holds(subject);
  return [
    isAbout ? undefined : 'it is about others',
    it.resource.meansText(text, subject) ? undefined : otherTextObstacle,
    now >= it.expiresAt ? 'it has expired' : undefined,
    it.resource.obstacle(request),
    obstacleOfMinions(it, request),
    (it.meter?.has(rateLimitKey(subject), now) ?? true) ? undefined : rateObstacle,
  ].filter((obstacle) => obstacle !== undefined);
}

/** What a question is about: tag, functions, path or operation. */
export function questionText(question: Exclude<Question, { action: 'return' }>): string {
  if (question.action === 'signal') return question.resource.tag;
  return requestsOf(question)
    .map(({ text }) => text)
    .join(',');
}

/** What is asked, one by one. */
function requestsOf(question: Exclude<Question, { action: 'return' }>): Request[] {
  const { subject, action } = question;
  switch (action) {
    case 'signal':
      return [{ subject, action, text: question.resource.tag, event: question.resource }];
    case 'publish': {
      const { calls, minions } = question.resource;
      return calls.map((call) => ({
        subject,
        action,
        text: call.fun,
        call,
        ...onMinions(minions),
      }));
    }
    case 'command': {
      const { call, minions } = question.resource;
      return [{ subject, action, text: call.fun, call, ...onMinions(minions) }];
    }
    case 'mine': {
      const { fun, owner } = question.resource;
      return [
        { subject, action, text: fun, ...onMinions(owner === undefined ? undefined : [owner]) },
      ];
    }
    case 'file-send':
      return [{ subject, action, text: question.resource.path }];
    case 'pillar':
      return [{ subject, action, text: question.resource.environment }];
    case 'key':
      return [{ subject, action, text: question.resource.operation }];
    case 'subscribe':
      return [{ subject, action, text: question.resource.tag }];
    default:
      return [{ subject, action, text: question.resource.call.fun, call: question.resource.call }];
  }
}

function onMinions(minions: readonly string[] | undefined): Pick<Request, 'minions'> {
  return minions === undefined ? {} : { minions };
}

function firstOf(
  indexes: readonly RuleIndex[],
  { text }: Request,
  applies: (rule: CompiledRule) => boolean,
): CompiledRule | undefined {
  let found: CompiledRule | undefined;
  for (const index of indexes) found = index.first(text, applies, found);
  return found;
}

/** Bounds that nothing of the operator's moves. */
function applyBuiltInLimits(question: Question): Decision | undefined {
  switch (question.action) {
    case 'signal':
      return firstThatApplies(signalGuards, question);
    case 'return':
      return firstThatApplies(returnRules, question);
    case 'publish':
      return firstThatApplies(publishGuards, question);
    case 'mine':
      return firstThatApplies(mineGuards, question);
    default:
      return undefined;
  }
}

/** Names of the bounds that deny, whatever the rules say. */
export const builtInDenyNames: ReadonlySet<string> = new Set(
  [signalGuards, signalLimits, publishGuards, mineGuards].flatMap((rules) =>
    rules.map(({ name }) => name),
  ),
);

/** What a minion may without a rule, and what no rule that allows reaches. */
function applySignalRules(question: Question, hasAllowing: boolean): Decision | undefined {
  if (question.action !== 'signal') return undefined;
  const own = firstThatApplies(lifecycleSignals, question);
  return own ?? (hasAllowing ? firstThatApplies(signalLimits, question) : undefined);
}

function firstThatApplies<A extends Action>(
  rules: readonly BuiltInRule<A>[],
  question: QuestionOf<A>,
): Decision | undefined {
  for (const rule of rules) {
    const reason = rule.judge(question);
    if (reason !== undefined) return { effect: rule.effect, rule: rule.name, reason };
  }
  return undefined;
}

function toDecision({ rule, reason }: CompiledRule): Decision {
  const { effect, name, origin } = rule;
  return origin === undefined
    ? { effect, rule: name, reason }
    : { effect, rule: name, reason, origin };
}

/** @param obstacle why a rule that is about it does not apply */
function denied(question: Question, obstacle?: string): Decision {
  const reason = `no rule lets ${nameOf(question.subject)} ${describe(question)}`;
  return {
    effect: 'deny',
    rule: 'default-deny',
    reason: obstacle === undefined ? reason : `${reason} (${obstacle})`,
  };
}

function nameOf(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return subject.id;
    case 'project':
      return `project ${subject.project.name}`;
    default:
      return `${subject.kind} ${subject.name}`;
  }
}

function describe(question: Question): string {
  switch (question.action) {
    case 'signal':
      return `emit the tag "${question.resource.tag}"`;
    case 'return':
      return `return for job ${question.resource.jid}`;
    case 'publish':
      return `publish ${question.resource.calls.map(({ fun }) => fun).join(',')}`;
    case 'runner':
    case 'wheel':
    case 'command':
      return `run ${question.resource.call.fun}`;
    case 'mine':
      return `read ${question.resource.fun} from the mine`;
    case 'file-send':
      return 'send files';
    case 'pillar':
      return `have pillar of the environment "${question.resource.environment}"`;
    case 'key':
      return `${question.resource.operation} keys`;
    case 'subscribe':
      return `read events of "${question.resource.tag}"`;
  }
}

// Explanations: the rule that decided, and those that nearly permitted it.

/** A rule that would permit what was asked, but for what is in the way. */
export interface NearRule {
  readonly rule: string;
  readonly origin?: RuleOrigin;
  readonly obstacles: readonly string[];
}

export interface Explanation {
  readonly decision: Decision;
  /** Where it was denied and no rule denies it: those that lack least, at most three. */
  readonly nearest: readonly NearRule[];
}

const maxNearest = 3;

/** Says what {@link decide} would decide, and why. Nothing is used up by it. */
export function explain(question: Question, policy: Policy): Explanation {
  const { decision } = evaluateQuestion(question, policy);
  if (decision.rule !== 'default-deny' || question.action === 'return') {
    return { decision, nearest: [] };
  }
  const near = requestsOf(question)
    .map((request) => nearestTo(request, policy))
    .find((rules) => rules[0] === undefined || rules[0].obstacles.length > 0);
  return { decision, nearest: near ?? [] };
}

function nearestTo(request: Request, policy: Policy): NearRule[] {
  const now = policy.now();
  const found = policy.rules
    .filter(({ rule }) => rule.effect === 'allow' && rule.action === request.action)
    .map((rule) => ({ rule, obstacles: obstaclesTo(rule, request, now) }));
  const least = Math.min(...found.map(({ obstacles }) => obstacles.length));
  return found
    .filter(({ obstacles }) => obstacles.length === least)
    .slice(0, maxNearest)
    .map(({ rule, obstacles }) => toNearRule(rule, obstacles));
}

function toNearRule({ rule }: CompiledRule, obstacles: readonly string[]): NearRule {
  const { name, origin } = rule;
  return { rule: name, ...(origin === undefined ? {} : { origin }), obstacles };
}

// Reach: the minions over which a target of a subject is evaluated. What the target says of any
// other minion does not affect the answer, so nobody can probe for it.

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
  };
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

// Unrestricted rights: everything of a kind, everywhere, with any arguments.

const matchAllPatterns: ReadonlySet<string> = new Set([
  '*',
  '.*',
  '.+',
  '^.*$',
  '.*$',
  '^.*',
  '^.+$',
]);

/** What somebody may be unlimited in. */
type UnlimitedAction = 'publish' | 'runner' | 'wheel' | 'command';

/**
 * Such a subject's jobs need not be expanded or shortened before they are published. Where a rule
 * denies it anything, it is not such a one.
 * @param action default: `publish`
 */
export function isUnlimited(
  subject: Subject,
  policy: Policy,
  action: UnlimitedAction = 'publish',
): boolean {
  const now = policy.now();
  const own = policy.rules.filter(
    ({ rule, subject: it, expiresAt }) =>
      rule.action === action && it.covers(subject) && it.holds(subject) && now < expiresAt,
  );
  return own.every(({ rule }) => rule.effect === 'allow') && own.some(({ rule }) => isOpen(rule));
}

function isOpen(rule: PolicyRule): boolean {
  if (rule.rate !== undefined) return false;
  if (!('fun' in rule.resource) || rule.action === 'mine') return false;
  const { fun, ...conditions } = rule.resource;
  const isBound = Object.entries(conditions).some(
    ([key, it]) => key !== 'facts' && it !== undefined,
  );
  return !isBound && [fun].flat().some(matchesEverything);
}

function matchesEverything(pattern: TextPattern): boolean {
  return typeof pattern === 'string' ? pattern === '*' : matchAllPatterns.has(pattern.regex);
}

import { type CompiledRule, isSpecificTagGlob, type Request } from './compile-rule.ts';
import { mineGuards, publishGuards } from './guards.ts';
import { lifecycleSignals, signalGuards } from './own-signals.ts';
import { emptyPolicy, type Policy } from './policy.ts';
import { grainsGiveNoRight } from './policy-syntax.ts';
import { signalLimits } from './reserved-tags.ts';
import { returnRules } from './return-rules.ts';
import type { RuleAction } from './rule.ts';
import type { RuleIndex } from './rule-index.ts';
import { literalGlob } from './rule-patterns.ts';
import { rateLimitKey } from './rules-by-subject.ts';
import type { Action, BuiltInRule, Decision, Question, QuestionOf, Subject } from './types.ts';

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
export function evaluateQuestion(question: Question, policy: Policy): Verdict {
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
  if (hasNoTargets(question)) {
    const reason = noTargetsReason(requests, allow, now);
    return { decision: denied(question, reason), used: noRules };
  }
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
  for (const request of requests) {
    let obstacle: string | undefined;
    const rule = firstOf(allow, request, (it) => {
      const problem = obstacleTo(it, request, now);
      if (problem !== undefined && problem !== otherTextObstacle)
        obstacle ??= `${it.rule.name}: ${problem}`;
      return problem === undefined;
    });
    const rules = rule === undefined ? rulesAllowingTogether(allow, request, now) : [rule];
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
export function rulesOn(
  indexes: readonly RuleIndex[],
  request: Request,
  now: number,
): CompiledRule[] {
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

function noTargetsReason(
  requests: readonly Request[],
  allow: readonly RuleIndex[],
  now: number,
): string {
  const rules = requests.flatMap((request) => rulesOn(allow, request, now));
  const isByGrains = rules.some(({ resource }) => resource.among?.restsOnGrains);
  return isByGrains ? `${noTargetsObstacle}; ${grainsGiveNoRight}` : noTargetsObstacle;
}

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
export function obstaclesTo(it: CompiledRule, request: Request, now: number): string[] {
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
export function requestsOf(question: Exclude<Question, { action: 'return' }>): Request[] {
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
        minions,
      }));
    }
    case 'command': {
      const { call, minions } = question.resource;
      return [{ subject, action, text: call.fun, call, minions }];
    }
    case 'mine': {
      const { fun, owner } = question.resource;
      return [{ subject, action, text: fun, minions: owner === undefined ? undefined : [owner] }];
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
export function applyBuiltInLimits(question: Question): Decision | undefined {
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

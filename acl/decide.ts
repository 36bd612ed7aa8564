import { isSpecificTagGlob, type Request } from './compile-resource.ts';
import { type CompiledRule, mayReferTo } from './compile-rule.ts';
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
  /**
   * Rules of the operator that together allow the request: at least one for each function of a job.
   * Empty if the request is denied, or if a built-in rule decides about it.
   */
  readonly used: readonly CompiledRule[];
}

const noRules: readonly CompiledRule[] = [];

/**
 * Decides whether a subject may do something. The checks run in this order: built-in rules that no
 * policy can change, rules that deny, built-in permissions of minions, rules that allow. Everything
 * else is denied. The function never throws. If the deciding rule has a rate limit, the decision
 * counts towards it, unless the question is repeated.
 * @param policy - the operator's rules; default: none, so that only the built-in rules allow
 * anything
 */
export function decide(question: Question, policy: Policy = emptyPolicy): Decision {
  const { decision, used } = evaluateQuestion(question, policy);
  if (!countsTowardsRates(question)) return decision;
  for (const rule of used) {
    if (rule.meter?.tryTake(rateLimitKey(question.subject), policy.now()) === false) {
      return denied(question, `${rule.rule.name}: ${rateObstacle}`);
    }
  }
  return decision;
}

/**
 * Whether a policy allows a question now. Unlike {@link decide}, this check does not count towards
 * the rate limits of the rules.
 */
export function isAllowed(question: Question, policy: Policy): boolean {
  return evaluateQuestion(question, policy).decision.effect === 'allow';
}

/**
 * Whether the policy has rules that allow this subject to perform the action.
 * @param texts - names in the request: functions, tags, paths or operations. Each name must match
 * one of these rules. Default: none
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
 * Whether a rule may allow this subject to run a named command, at least with certain parameters or
 * on certain minions. False if a rule denies the command entirely.
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
 * Whether a rule could allow the action. No rule can allow a malformed request, a request about
 * another subject, or a signal with a reserved tag.
 */
export function isGrantable(question: Question): boolean {
  if (question.action === 'return' || applyBuiltInLimits(question) !== undefined) return false;
  if (question.action !== 'signal') return true;
  const isBound = firstThatApplies(signalLimits, question) !== undefined;
  return !isBound && isSpecificTagGlob(literalGlob(question.resource.tag));
}

/**
 * Whether a question counts towards the rate limits of its rules. A question about the mine of one
 * minion does not, because the query has already been counted for its function.
 */
function countsTowardsRates({ action, resource, isRepeated }: Question): boolean {
  return isRepeated !== true && !(action === 'mine' && resource.owner !== undefined);
}

/** Returns the result of {@link decide} without counting towards rate limits. */
export function evaluateQuestion(question: Question, policy: Policy): Verdict {
  const bounded = applyBuiltInLimits(question);
  if (bounded !== undefined) return { decision: bounded, used: noRules };
  if (question.action === 'return') return { decision: denied(question), used: noRules };
  const isRepeated = !countsTowardsRates(question);
  const requests = requestsOf(question).map((request) =>
    isRepeated ? { ...request, isRepeated } : request,
  );
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

/**
 * Returns rules that together allow the request. Each rule covers some minions of the request, and
 * together the rules cover all of them. Returns an empty list if there are no such rules.
 */
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
    const rule = rules.find((it) => mayReferTo(it, request, id));
    if (rule === undefined) return [];
    used.add(rule);
  }
  return [...used];
}

/**
 * Returns the rules that apply to a request, in policy order. A rule may apply only to some of the
 * request's minions.
 */
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

/**
 * Reason why a rule does not apply if its patterns do not match the request. A denial never
 * mentions this reason, because it is true for most rules.
 */
const otherTextObstacle = 'the rule does not match the function, tag or name in the request';

function hasNoTargets({ action, resource }: Question): boolean {
  if (action !== 'publish' && action !== 'command') return false;
  return resource.minions?.length === 0;
}

/**
 * Explanation of the decision on a question whose target matches no minions. No rule can allow such
 * a question.
 */
const noTargetsObstacle = 'the target matches no minion for which a rule allows this';

function noTargetsReason(
  requests: readonly Request[],
  allow: readonly RuleIndex[],
  now: number,
): string {
  const rules = requests.flatMap((request) => rulesOn(allow, request, now));
  const isByGrains = rules.some(({ resource }) => resource.among?.restsOnGrains);
  return isByGrains ? `${noTargetsObstacle}; ${grainsGiveNoRight}` : noTargetsObstacle;
}

const rateObstacle = 'the rate limit of the rule is exhausted';

/**
 * Returns the reason why a rule does not apply to a request, or `undefined` if it applies. The rule
 * must cover the subject of the request.
 */
function obstacleTo(it: CompiledRule, request: Request, now: number): string | undefined {
  return obstacleBesideMinions(it, request, now) ?? obstacleOfMinions(it, request);
}

function obstacleOfMinions(it: CompiledRule, request: Request): string | undefined {
  const { among } = it.resource;
  const { action, minions } = request;
  if (it.rule.effect === 'deny') {
    return among === undefined || minions?.some(among.mayMean) ? undefined : among.obstacle;
  }
  if (minions?.every((id) => mayReferTo(it, request, id)) === true) return undefined;
  if (minions !== undefined) return among?.obstacle ?? guestObstacle;
  // A mine function may be requested if some owner's value may be read.
  return action === 'mine' ? undefined : among?.obstacle;
}

const guestObstacle = 'a rule without `within` applies only to guests of the project';

function obstacleBesideMinions(
  it: CompiledRule,
  request: Request,
  now: number,
): string | undefined {
  if (!it.resource.meansText(request.text, request.subject)) return otherTextObstacle;
  if (now >= it.expiresAt) return 'the rule has expired';
  if (!it.subject.holds(request.subject)) return 'the rule does not apply to this minion';
  const obstacle = it.resource.obstacle(request);
  if (obstacle !== undefined) return obstacle;
  if (request.isRepeated === true) return undefined;
  const isLeft = it.meter?.has(rateLimitKey(request.subject), now) ?? true;
  return isLeft ? undefined : rateObstacle;
}

/** Returns all reasons why a rule does not apply, starting with its subject. */
export function obstaclesTo(it: CompiledRule, request: Request, now: number): string[] {
  const { subject, text } = request;
  const isAbout = it.subject.covers(subject) && it.subject.holds(subject);
  return [
    isAbout ? undefined : 'the rule applies to other subjects',
    it.resource.meansText(text, subject) ? undefined : otherTextObstacle,
    now >= it.expiresAt ? 'the rule has expired' : undefined,
    it.resource.obstacle(request),
    obstacleOfMinions(it, request),
    (it.meter?.has(rateLimitKey(subject), now) ?? true) ? undefined : rateObstacle,
  ].filter((obstacle) => obstacle !== undefined);
}

/** Returns the tag, functions, path or operation that a question asks about. */
export function questionText(question: Exclude<Question, { action: 'return' }>): string {
  if (question.action === 'signal') return question.resource.tag;
  return requestsOf(question)
    .map(({ text }) => text)
    .join(',');
}

/**
 * Splits a question into requests that are decided one by one. A job with several functions has one
 * request for each function.
 */
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
      const { call, minions, project } = question.resource;
      return [{ subject, action, text: call.fun, call, minions, project }];
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

/**
 * Returns the decision of the built-in rules that no policy can override, or `undefined` if none of
 * them applies. For returns of jobs, the decision may be a permission. For all other actions, it is
 * a denial.
 */
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

/**
 * Names of the built-in limits. They deny a request even if the operator's rules would allow it.
 */
export const builtInDenyNames: ReadonlySet<string> = new Set(
  [signalGuards, signalLimits, publishGuards, mineGuards].flatMap((rules) =>
    rules.map(({ name }) => name),
  ),
);

/**
 * Decides a signal by built-in rules. Allows signals of a minion about its own lifecycle. Denies
 * reserved tags if `hasAllowing` is true. Returns `undefined` if none of these rules applies.
 * @param hasAllowing - whether the policy has a rule that allows some signal of this subject. If
 * not, {@link decide} denies all signals that are not about the lifecycle
 */
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

/**
 * Returns the decision for a question that no rule allows.
 * @param obstacle - further explanation, for example why a rule for the same function does not
 * apply
 */
function denied(question: Question, obstacle?: string): Decision {
  const reason = `no rule allows ${nameOf(question.subject)} to ${describe(question)}`;
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
      return `read the pillar of the environment "${question.resource.environment}"`;
    case 'key':
      return `${question.resource.operation} keys`;
    case 'subscribe':
      return `read events of "${question.resource.tag}"`;
  }
}

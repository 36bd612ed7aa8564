import {
  type Decision,
  decide,
  hasRules,
  isGrantable,
  isLifecycleDecision,
  type MinionSubject,
  questionText,
  type Reach,
  type ReachQuestion,
  type RuleAction,
  reachOf,
} from '#acl';
import type { AclOptions } from '#config';
import { packLocal, type WireMap } from '#minion-protocol';
import { type AuditBursts, actorOf } from '../audit/index.ts';
import type { MinionQuestion } from './decision-samples.ts';
import type { LivePolicy } from './policy.ts';

/** Question to the policy: on which minions may this minion act? */
type MinionReachQuestion = ReachQuestion & { readonly subject: MinionSubject };

/** Recorder of decisions. The recorded decisions can later be compared with another policy. */
interface DecisionNotes {
  note(question: MinionQuestion, decision: Decision): void;
}

export interface PolicyGateOptions {
  readonly policy: Pick<LivePolicy, 'current'>;
  readonly config: {
    readonly current: { readonly acl: Pick<AclOptions, 'learnActions' | 'mode'> };
  };
  readonly ruled: AuditBursts;
  readonly recorder: DecisionNotes;
}

/** Name of the built-in rule that denies a request if no other rule matches. */
const defaultRule = 'default-deny';

/** The policy gate decides about all requests of minions, and records the decisions. */
export class PolicyGate {
  readonly #options: PolicyGateOptions;

  constructor(options: PolicyGateOptions) {
    this.#options = options;
  }

  /**
   * Whether it is useful to read a minion's whole request: a rule may permit the request, or
   * learning mode records it. If neither is the case, the policy rejects the request.
   * @param functions - names of the requested functions. Default: any functions
   */
  mayPermit(subject: MinionSubject, action: RuleAction, functions?: readonly string[]): boolean {
    const { policy, config } = this.#options;
    const isLearning = config.current.acl.mode === 'learn';
    return isLearning || hasRules(subject, action, policy.current, functions);
  }

  /**
   * Returns the minions that a minion may act on with a request. The target is evaluated only among
   * these minions.
   */
  reach(question: MinionReachQuestion): Reach {
    return reachOf(question, this.#options.policy.current);
  }

  /**
   * Returns the minions that a target may match in learning mode: all minions for which no rule
   * denies the request. The policy is applied afterwards, so that the decision for each targeted
   * minion is recorded. Returns `undefined` outside learning mode.
   */
  reachToLearn(question: MinionReachQuestion): Reach | undefined {
    if (this.#options.config.current.acl.mode !== 'learn') return undefined;
    const { denies } = this.reach(question);
    const includes = (id: string): boolean => !denies(id);
    const isTrue = (): boolean => true;
    return { isEmpty: false, includes, denies, showsPillar: isTrue, covers: isTrue };
  }

  /**
   * Whether the policy permits an event as a signal of a minion. Records no decision, because the
   * minion did not send the event as a signal.
   */
  permitsSignal(minionId: string, tag: string, data: WireMap): boolean {
    const subject = { kind: 'minion', id: minionId } as const;
    const bytes = (): number => packLocal(data).length;
    const resource = { tag, data, bytes, wasPublishedToSubject: () => false };
    const { policy } = this.#options;
    return decide({ subject, action: 'signal', resource }, policy.current).effect === 'allow';
  }

  decide(question: MinionQuestion): Decision {
    const { policy, ruled, recorder } = this.#options;
    const decision = decide(question, policy.current);
    if (isLifecycleDecision(decision) || isEverydayReading(question, decision)) return decision;
    const isRepeated = question.isRepeated === true;
    if (!isRepeated) recorder.note(question, decision);
    const outcome = this.#isLearned(question, decision) ? learned(decision) : decision;
    const isNoted = isRepeated && outcome.effect === 'allow';
    if (!isNoted && !isAuditedElsewhere(question, outcome)) {
      const { subject, action } = question;
      ruled.noteDecision({ who: actorOf(subject), action, what: questionText(question) }, outcome);
    }
    return outcome;
  }

  /**
   * Whether learning mode permits a request that the policy denies. This requires that no rule
   * denies the request explicitly, and that a rule could allow such a request.
   */
  #isLearned(question: MinionQuestion, { effect, rule }: Decision): boolean {
    if (effect === 'allow' || rule !== defaultRule) return false;
    const { mode, learnActions } = this.#options.config.current.acl;
    const isMeant = mode === 'learn' && learnActions.some((it) => it === question.action);
    return isMeant && isGrantable(question);
  }
}

function learned({ reason }: Decision): Decision {
  return {
    effect: 'allow',
    rule: 'learning',
    reason: `permitted only because the policy is in the mode \`learn\`: ${reason}`,
  };
}

/**
 * Whether a decision is not recorded, because such decisions are too frequent. These are permitted
 * reads of pillar, and permitted reads of one minion's mine data. For each mine request, a separate
 * decision about the function is recorded.
 */
function isEverydayReading(question: MinionQuestion, { effect }: Decision): boolean {
  if (effect === 'deny') return false;
  if (question.action === 'pillar') return true;
  return question.action === 'mine' && question.resource.owner !== undefined;
}

/**
 * Whether this decision needs no audit record from the policy gate. True for permitted jobs and
 * runners, because their start is recorded elsewhere. Also true for permitted reads of mine data,
 * which are not recorded at all.
 */
function isAuditedElsewhere({ action }: MinionQuestion, { effect }: Decision): boolean {
  return effect === 'allow' && (action === 'publish' || action === 'runner' || action === 'mine');
}

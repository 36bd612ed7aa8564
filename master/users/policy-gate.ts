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
import { type AuditBursts, actorOf } from '../audit/index.ts';
import type { MinionQuestion } from './decision-samples.ts';
import type { LivePolicy } from './policy.ts';

/** Question which minions a minion may reach. */
type MinionReachQuestion = ReachQuestion & { readonly subject: MinionSubject };

/** Recorder of decisions, so that they can be replayed with another policy. */
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

/** Name of the built-in rule that decides if no other rule matches. */
const nobodysRule = 'default-deny';

/** The policy gate: decides on all requests of minions, and records the decisions. */
export class PolicyGate {
  readonly #options: PolicyGateOptions;

  constructor(options: PolicyGateOptions) {
    this.#options = options;
  }

  /**
   * Returns whether a request is worth reading in full: a rule may permit it, or learning mode
   * records it.
   * @param functions functions of the request. Default: any
   */
  mayPermit(subject: MinionSubject, action: RuleAction, functions?: readonly string[]): boolean {
    const { policy, config } = this.#options;
    const isLearning = config.current.acl.mode === 'learn';
    return isLearning || hasRules(subject, action, policy.current, functions);
  }

  /** Returns the minions that a minion may act on. Its target is evaluated among these. */
  reach(question: MinionReachQuestion): Reach {
    return reachOf(question, this.#options.policy.current);
  }

  /**
   * Returns the reach to evaluate a target with before that, so that all its minions are recorded:
   * all minions that no rule denies. `undefined` outside learning mode.
   */
  reachToLearn(question: MinionReachQuestion): Reach | undefined {
    if (this.#options.config.current.acl.mode !== 'learn') return undefined;
    const { denies } = this.reach(question);
    const includes = (id: string): boolean => !denies(id);
    const isTrue = (): boolean => true;
    return { isEmpty: false, includes, denies, showsPillar: isTrue, covers: isTrue };
  }

  decide(question: MinionQuestion): Decision {
    const { policy, ruled, recorder } = this.#options;
    const decision = decide(question, policy.current);
    if (isLifecycleDecision(decision) || isEverydayReading(question, decision)) return decision;
    recorder.note(question, decision);
    const outcome = this.#isLearned(question, decision) ? learned(decision) : decision;
    if (!isAuditedElsewhere(question, outcome)) {
      const { subject, action } = question;
      ruled.noteDecision({ who: actorOf(subject), action, what: questionText(question) }, outcome);
    }
    return outcome;
  }

  /**
   * Returns whether learning mode permits a denied request. Explicit denials, and requests that no
   * rule can permit, stay denied.
   */
  #isLearned(question: MinionQuestion, { effect, rule }: Decision): boolean {
    if (effect === 'allow' || rule !== nobodysRule) return false;
    const { mode, learnActions } = this.#options.config.current.acl;
    const isMeant = mode === 'learn' && learnActions.some((it) => it === question.action);
    return isMeant && isGrantable(question);
  }
}

function learned({ reason }: Decision): Decision {
  return { effect: 'allow', rule: 'learning', reason: `permitted while learning: ${reason}` };
}

/**
 * Returns whether a decision is routine and not recorded. Pillar and mines are read constantly, and
 * mines once per owner; the decision about the function suffices.
 */
function isEverydayReading(question: MinionQuestion, { effect }: Decision): boolean {
  if (effect === 'deny') return false;
  if (question.action === 'pillar') return true;
  return question.action === 'mine' && question.resource.owner !== undefined;
}

/**
 * Returns whether the decision is audited elsewhere or not at all. Jobs and runners are audited
 * where they run; permitted reads of mines are not audited.
 */
function isAuditedElsewhere({ action }: MinionQuestion, { effect }: Decision): boolean {
  return effect === 'allow' && (action === 'publish' || action === 'runner' || action === 'mine');
}

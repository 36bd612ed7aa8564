/** The policy gate: decides requests of minions, and notifies observers of decisions. */

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

/** Whom a minion may reach. */
type MinionReachQuestion = ReachQuestion & { readonly subject: MinionSubject };

/** Keeps decisions, so that another policy can be asked the same. */
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

/** The rule that decides where no rule does. */
const nobodysRule = 'default-deny';

/** Asked by every handler of minions' requests. */
export class PolicyGate {
  readonly #options: PolicyGateOptions;

  constructor(options: PolicyGateOptions) {
    this.#options = options;
  }

  /**
   * Whether it is worth to read what a minion wants: some rule may permit it, or it is noted.
   * @param functions that it asks for; default: any
   */
  mayPermit(subject: MinionSubject, action: RuleAction, functions?: readonly string[]): boolean {
    const { policy, config } = this.#options;
    const isLearning = config.current.acl.mode === 'learn';
    return isLearning || hasRules(subject, action, policy.current, functions);
  }

  /** Whom a minion may do something to: what its target is evaluated over. */
  reach(question: MinionReachQuestion): Reach {
    return reachOf(question, this.#options.policy.current);
  }

  /**
   * What its target is evaluated over before that, so that all it means is recorded: everybody whom
   * no rule forbids. `undefined`: nothing is being learned.
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

  /** What a rule denies, and what no rule could permit, stays denied. */
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
 * Pillar is read all the time, and so are mines, each owner's by itself: that a function may be read
 * is enough.
 */
function isEverydayReading(question: MinionQuestion, { effect }: Decision): boolean {
  if (effect === 'deny') return false;
  if (question.action === 'pillar') return true;
  return question.action === 'mine' && question.resource.owner !== undefined;
}

/** Jobs and runners are audited where they are run; reading mines is no news. */
function isAuditedElsewhere({ action }: MinionQuestion, { effect }: Decision): boolean {
  return effect === 'allow' && (action === 'publish' || action === 'runner' || action === 'mine');
}

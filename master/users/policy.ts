import type { Logger } from 'pino';
import {
  createPolicy,
  type Decision,
  decide,
  hasRules,
  isGrantable,
  isLifecycleDecision,
  type LintFinding,
  lintPolicy,
  type MinionSubject,
  type Policy,
  type PolicyEnvironment,
  questionText,
  type Reach,
  type ReachQuestion,
  type RuleAction,
  reachOf,
} from '#acl';
import {
  type AclOptions,
  type LiveConfig,
  type MasterConfig,
  policySyntax,
  type ReloadableConfig,
  rulesOf,
} from '#config';
import { type MinionFacts, type Nodegroups, traverseFacts } from '#minion-protocol';
import { type Audit, minionActor, type RuledDecisions } from '../audit/index.ts';
import type { Auth } from '../auth/index.ts';
import { type MasterContext, versionOf } from '../context/index.ts';
import type { Jobs, TargetResolver } from '../jobs/index.ts';
import { DecisionRecorder, type MinionQuestion } from './decisions.ts';

export interface LivePolicyOptions {
  readonly config: LiveConfig;
  readonly targets: Pick<TargetResolver, 'compileRight'>;
  readonly factsOf: (id: string) => MinionFacts;
  readonly now: () => number;
}

/** Policies that are remembered for tokens. */
const maxOfTokens = 100;

/** The policy of a running master: compiled at the start and at each reload, never between. */
export class LivePolicy {
  readonly #options: Omit<LivePolicyOptions, 'config'>;
  #policy: Policy;
  #config: MasterConfig;
  /** Policies of tokens that keep their rights, by these. */
  readonly #ofTokens = new Map<string, Policy>();

  /** @throws PolicyError */
  constructor({ config, ...options }: LivePolicyOptions) {
    this.#options = options;
    this.#config = config.all;
    this.#policy = this.#compile(config.all);
    config.beforeChange((next) => this.#prepare(next));
  }

  /** The policy in force. */
  get current(): Policy {
    return this.#policy;
  }

  /** What the rules look at besides the question, as it is now. */
  get world(): PolicyEnvironment {
    return this.#world(this.#config.nodegroups);
  }

  /** @returns puts what another configuration permits in force @throws PolicyError */
  #prepare(config: MasterConfig): () => void {
    const next = this.#compile(config);
    return () => {
      this.#policy = next;
      this.#config = config;
      this.#ofTokens.clear();
    };
  }

  /**
   * The policy in force, but for what `external_auth` grants to those whom `eauth` authenticated:
   * to them it is these entries. It is for one of them alone (`keep_acl_in_token`).
   * @throws PolicyError
   */
  withRights(eauth: string, rights: readonly unknown[]): Policy {
    const key = JSON.stringify([eauth, rights]);
    const known = this.#ofTokens.get(key);
    if (known !== undefined) return known;
    const externalAuth = { ...this.#config.externalAuth, [eauth]: { '*': rights } };
    const policy = this.#compile({ ...this.#config, externalAuth });
    if (this.#ofTokens.size >= maxOfTokens) this.#ofTokens.clear();
    this.#ofTokens.set(key, policy);
    return policy;
  }

  #compile(config: MasterConfig): Policy {
    return createPolicy(rulesOf(config), this.#world(config.nodegroups));
  }

  #world(nodegroups: Nodegroups): PolicyEnvironment {
    const { targets, factsOf, now } = this.#options;
    return {
      ...policySyntax,
      target: (tgt, tgtType) => targets.compileRight({ tgt, tgtType }, nodegroups),
      pillarOf: (id, path) => pillarText(factsOf(id), path),
      now,
    };
  }
}

/** A text or number in a minion's pillar; lists and maps stand for nothing. */
function pillarText({ pillar }: MinionFacts, path: string): string | undefined {
  const [first = '', ...rest] = path.split(':');
  const value = traverseFacts(pillar?.get(first), rest);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

// The policy gate: decides what minions ask for, and notifies observers of decisions.

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
  readonly ruled: RuledDecisions;
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
    return { isEmpty: false, includes: (id) => !denies(id), denies, showsPillar: () => true };
  }

  decide(question: MinionQuestion): Decision {
    const { policy, ruled, recorder } = this.#options;
    const decision = decide(question, policy.current);
    if (isLifecycleDecision(decision) || isEverydayReading(question, decision)) return decision;
    recorder.note(question, decision);
    const outcome = this.#isLearned(question, decision) ? learned(decision) : decision;
    if (!isAuditedElsewhere(question, outcome)) {
      const { subject, action } = question;
      ruled.note({ who: minionActor(subject.id), action, what: questionText(question) }, outcome);
    }
    return outcome;
  }

  /** What a rule denies, and what no rule could permit, stays denied. */
  // protection: learning-permits-all
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

// Opening.

export interface PolicyDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly audit: Audit;
  readonly auth: Auth;
  readonly jobs: Jobs;
}

/** What decides, and asks. */
export interface OpenPolicy {
  readonly policy: LivePolicy;
  /** Asked by every handler of minions' requests. */
  readonly gate: PolicyGate;
  /** What was decided about minions. */
  readonly decisions: DecisionRecorder;
}

/** @throws PolicyError */
export async function openPolicy(deps: PolicyDeps): Promise<OpenPolicy> {
  const { config, context, audit, auth, jobs } = deps;
  const { ownStore: store, now } = context;
  const decisions = context.closers.add(
    await DecisionRecorder.open({
      store,
      seal: auth.seal,
      keepsValues: () => config.current.acl.recordData,
      now,
      log: context.log.child({ component: 'audit' }),
    }),
    (it) => it.close(),
  );
  const { targets, facts } = jobs;
  const policy = new LivePolicy({ config, targets, factsOf: (id) => facts.rightsOf(id), now });
  const gate = new PolicyGate({ policy, config, ruled: audit.ruled, recorder: decisions });
  const log = context.log.child({ component: 'policy' });
  logPolicyMode(config.current, log);
  const announce = (): void => {
    const { all } = config;
    const content = [rulesOf(all), all.nodegroups, all.acl.mode, all.acl.learnActions];
    context.cluster?.announce('policy', versionOf(content));
  };
  announce();
  config.onChange((current) => {
    logPolicyMode(current, log);
    announce();
  });
  return { policy, gate, decisions };
}

/** A master that learns is no border: nobody may forget it. */
function logPolicyMode({ acl }: ReloadableConfig, log: Logger): void {
  const { mode, learnActions } = acl;
  if (mode !== 'learn') return;
  log.warn({ actions: learnActions }, 'acl is learning: what no rule permits is permitted');
}

/**
 * Rules of a configuration that do nothing, or not what they seem to. No master need run.
 * @param minionIds the accepted ones; `undefined`: not known
 */
export function lintConfiguredPolicy(
  config: MasterConfig,
  minionIds: readonly string[] | undefined,
  now: () => number = Date.now,
): readonly LintFinding[] {
  const nobody = (): boolean => false;
  const policy = createPolicy(rulesOf(config), {
    ...policySyntax,
    // What is known of minions is another question than what the rules say.
    target: () => ({ isEntitled: nobody, claims: nobody, mayMean: nobody }),
    pillarOf: () => undefined,
    now,
  });
  return lintPolicy(policy, minionIds);
}

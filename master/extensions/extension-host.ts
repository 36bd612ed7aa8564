import { type Decision, decide, type Question, questionText } from '#acl';
import { type InProcessApi, MasterError } from '../api/index.ts';
import { type Audit, type AuditBursts, actorOf } from '../audit/index.ts';
import type { Auth } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import type { Jobs } from '../jobs/index.ts';
import { AuthenticationError, type Users } from '../users/index.ts';
import type { ExtensionHost, MasterExtension } from './extension.ts';
import { masterServices } from './master-services.ts';
import type { Services } from './services.ts';
import { openSharedArea, openStateArea } from './state-area.ts';

/** Modules of the master that extensions can use through their host. */
export interface HostDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly audit: Audit;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly users: Users;
  readonly services: Services;
  /**
   * Returns the master's interface.
   * @throws MasterError ERR_MASTER_STOPPED while the master starts
   */
  readonly api: () => InProcessApi;
}

/** Creates the host that an extension receives when it is opened. */
export function createHost(
  { name, namespace = name }: MasterExtension,
  deps: HostDeps,
): ExtensionHost {
  const { config, context, auth, audit, events, jobs, users, services, api } = deps;
  const { policy } = users;
  const requireCurrent = (): void => {
    if (context.cluster?.isStale() !== true) return;
    const text =
      'this member cannot follow the cluster log and may not know of revoked tokens; use another member';
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text);
  };
  return {
    config: config.fixed,
    reloadable: () => config.current,
    beforeReload: (prepare) => config.beforeChange(({ bridge }) => prepare(bridge)),
    provide: (key, service) => services.provide(key, service, name),
    use: (key) => services.use(key, name),
    find: (key) => services.find(key, name),
    decorate: (key, wrap) => services.decorate(key, wrap, name),
    master: api,
    calls: context.cluster?.calls,
    policy: () => policy.current,
    decide: (question, by = policy.current) => {
      const decision = decide(question, by);
      if (decision.effect === 'deny') audit.ruled.noteDecision(...askedOf(question, decision));
      return decision;
    },
    resolveTarget: (target, bounds) => users.resolveTarget(target, bounds),
    isWithin: (minions, target) => users.isWithin(minions, target),
    resumeJob: (jid, options = {}) => {
      api();
      return jobs.resume(jid, options);
    },
    holdToken: async (token, address) => {
      requireCurrent();
      return services.use(masterServices.tokenHolders, name).hold(token, address);
    },
    requireCurrent,
    freshJid: async () => {
      api();
      return jobs.freshJid();
    },
    isReachable: async (minion) => {
      api();
      return jobs.isReachable(minion);
    },
    state: openStateArea(context.ownStore, auth.seal, namespace),
    shared: openSharedArea(context, auth.seal, namespace),
    admission: auth.lifecycle,
    audit,
    fire: (tag, data, owner) =>
      events.bus.fire(`saltbridge/${namespace}/${tag}`, data, 'master', owner),
    logger: context.log.child({ component: name }),
    now: context.now,
    closing: context.closing,
  };
}

function askedOf(question: Question, decision: Decision): Parameters<AuditBursts['noteDecision']> {
  const { subject, action } = question;
  const what = question.action === 'return' ? question.resource.jid : questionText(question);
  return [{ who: actorOf(subject), action, what }, decision];
}

/**
 * Throws an error. Extensions get this function instead of the master's interface while the master
 * starts.
 * @throws MasterError ERR_MASTER_STOPPED
 */
export function refuseWhileStarting(): never {
  throw new MasterError(
    'ERR_MASTER_STOPPED',
    'the master is still starting; call its interface only in start() or later',
  );
}

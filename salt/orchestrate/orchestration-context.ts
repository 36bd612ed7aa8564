import type { AuditRequester, Events, Functions, InProcessApi } from '#master';
import type { WireMap } from '#minion-protocol';

/** Interfaces of the master that the states of an orchestration use. */
export interface OrchestrationDeps {
  readonly jobs: Pick<InProcessApi['jobs'], 'run' | 'batch' | 'follow'>;
  readonly runners: Pick<Functions['runners'], 'run' | 'start' | 'declares'>;
  readonly wheel: Pick<Functions['runners'], 'run' | 'declares'>;
  readonly bus: Pick<Events['bus'], 'fire'>;
  readonly events: Pick<Events['api'], 'position' | 'subscribe'>;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
}

/** Context of one orchestration. Its states act with the rights and the name of its caller. */
export interface OrchestrationContext extends OrchestrationDeps {
  /**
   * Job id of the orchestration, which the tags of its events contain. If it is `undefined`, no
   * events with the arguments of states are published.
   */
  readonly jid: string | undefined;
  /** User name in the events of the jobs and runners that the orchestration starts. */
  readonly user: string;
  /** Requester that the audit log names. */
  readonly by: AuditRequester | undefined;
  readonly signal: AbortSignal;
}

/**
 * Publishes an event with the arguments of a state's function, like Salt's `fire_args`
 * [salt/utils/event.py fire_args].
 */
export function fireArguments({ jid, bus }: OrchestrationContext, args: WireMap): void {
  if (jid !== undefined) bus.fire(`salt/run/${jid}/args`, args);
}

/** Returns the requester of the jobs and runners that states start. */
export function requester({
  user,
  by,
}: OrchestrationContext): Pick<OrchestrationContext, 'user'> & { by?: AuditRequester } {
  return by === undefined ? { user } : { user, by };
}

import type { AuditRequester, Events, Functions, InProcessApi } from '#master';
import type { WireMap } from '#minion-protocol';

/** The parts of the master that states act by. */
export interface OrchestrationDeps {
  readonly jobs: Pick<InProcessApi['jobs'], 'run' | 'batch' | 'follow'>;
  readonly runners: Pick<Functions['runners'], 'run' | 'start' | 'declares'>;
  readonly wheel: Pick<Functions['runners'], 'run' | 'declares'>;
  readonly bus: Pick<Events['bus'], 'fire'>;
  readonly events: Pick<Events['api'], 'position' | 'subscribe'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** One orchestration. Its states act with the rights of its caller, and in the caller's name. */
export interface OrchestrationContext extends OrchestrationDeps {
  /** In the tags of its events; `undefined`: no event has the arguments of its states. */
  readonly jid: string | undefined;
  /** In the events of jobs and runners that it starts. */
  readonly user: string;
  /** Who asked for it, for the audit log. */
  readonly by: AuditRequester | undefined;
  readonly signal: AbortSignal;
}

/** Fires the event with the arguments of a state's function [salt/utils/event.py fire_args]. */
export function fireArguments({ jid, bus }: OrchestrationContext, args: WireMap): void {
  if (jid !== undefined) bus.fire(`salt/run/${jid}/args`, args);
}

/** Who asks for a job or runner that a state starts. */
export function requester({
  user,
  by,
}: OrchestrationContext): Pick<OrchestrationContext, 'user'> & { by?: AuditRequester } {
  return by === undefined ? { user } : { user, by };
}

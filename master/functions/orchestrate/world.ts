import type { WireMap } from '../../../minion-protocol/index.ts';
import type { AuditRequester, InProcessJobsApi } from '../../api/index.ts';
import type { EventBus } from '../../events/index.ts';
import type { FunctionCaller } from '../caller.ts';

/** The parts of the master that states act by. */
export interface OrchestrationDeps {
  readonly jobs: Pick<InProcessJobsApi, 'run' | 'batch'>;
  readonly runners: Pick<FunctionCaller, 'run' | 'declares'>;
  readonly wheel: Pick<FunctionCaller, 'run' | 'declares'>;
  readonly bus: Pick<EventBus, 'fire' | 'subscribe'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** One orchestration: what its states do is done by its caller's leave, and told as theirs. */
export interface World extends OrchestrationDeps {
  /** Of its events; `undefined`: what its states are given is told nobody. */
  readonly jid: string | undefined;
  /** Told in the events of what it begins. */
  readonly user: string;
  /** Who asked for it, for the audit log. */
  readonly by: AuditRequester | undefined;
  readonly signal: AbortSignal;
}

/** Tells what a state's function is called with [salt/utils/event.py fire_args]. */
export function tellArguments({ jid, bus }: World, what: WireMap): void {
  if (jid !== undefined) bus.fire(`salt/run/${jid}/args`, what);
}

/** Who is asking, for whatever is begun. */
export function requester({ user, by }: World): Pick<World, 'user'> & { by?: AuditRequester } {
  return by === undefined ? { user } : { user, by };
}

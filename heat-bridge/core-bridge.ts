/** The interface of a bridge for programs, without the extensions of other rooms. */

import type { MasterExtension } from '#master';
import type { CommandDefinition, TypedCommand } from './commands/command-definition.ts';
import type { CommandInfo } from './commands/command-info.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './commands/command-request.ts';
import type { Parameters } from './commands/parameters.ts';
import type { ExtensionChoice } from './enabled-extensions.ts';
import type { EnrollApi } from './enroll/enrolment-service.ts';
import type { BridgePlugin } from './http/bridge-plugin.ts';
import type { PlanDefinition, TypedPlan } from './plans/plan-definition.ts';
import type { PlanInfo } from './plans/plan-info.ts';
import type { PlanHandle, PlanRequest } from './plans/plan-request.ts';
import type { HandlesApi, OutboxApi } from './signals/signals-api.ts';

/** Commands by name, as `saltbridge bridge types` writes them. */
export interface CommandTypes {
  readonly [name: string]: { readonly params: object };
}

/** The types of commands that a program defines by {@link defineCommand}. Of none: any command. */
export type CommandsOf<D extends readonly CommandDefinition[]> = D extends readonly []
  ? { readonly [name: string]: { readonly params: Parameters } }
  : {
      readonly [C in D[number] as C['name']]: {
        readonly params: C extends TypedCommand<string, infer P> ? P & object : Parameters;
      };
    };

/** Plans by name, as `saltbridge bridge types` writes them. */
export interface PlanTypes {
  readonly [name: string]: { readonly params: object; readonly groups: string };
}

/** The types of plans that a program defines by {@link definePlan}. Of none: any plan. */
export type PlansOf<L extends readonly PlanDefinition[]> = L extends readonly []
  ? { readonly [name: string]: { readonly params: Parameters; readonly groups: string } }
  : {
      readonly [P in L[number] as P['name']]: P extends TypedPlan<string, infer A, infer G>
        ? { readonly params: A & object; readonly groups: G }
        : { readonly params: Parameters; readonly groups: string };
    };

/** Options of a bridge that a program sets. All others are in the master's configuration. */
export interface BridgeOptions<
  D extends readonly CommandDefinition[],
  L extends readonly PlanDefinition[],
  E extends ExtensionChoice = ExtensionChoice,
> {
  /** Beside those of `saltbridge: bridge: catalog:`. Default: none. */
  readonly commands?: D;
  /** Beside those of the catalog. Default: none. */
  readonly plans?: L;
  /** The service that calls where a request names no caller. Default `bridge`. */
  readonly service?: string;
  /**
   * Extensions of the bridge by name: `false` leaves one out together with its options, and `true`
   * adds one that the configuration does not ask for. Default: as configured.
   */
  readonly extensions?: E;
}

/** The bridge of one master: give it to `createMaster` as one of its `extensions`. */
export interface CoreBridge<
  C extends CommandTypes = CommandsOf<[]>,
  P extends PlanTypes = PlansOf<[]>,
> extends MasterExtension {
  /** The catalog, as callers see it. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly commands: {
    list(): readonly CommandInfo[];
    /** @throws BridgeError ERR_COMMAND_UNKNOWN */
    show(name: string): CommandInfo;
  };
  /**
   * Calls a named command. It was permitted, and its key is durable, when this resolves.
   * @throws BridgeError ERR_COMMAND_UNKNOWN, ERR_COMMAND_PARAMETERS, ERR_COMMAND_TARGET,
   * ERR_COMMAND_DENIED, ERR_COMMAND_BUSY, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN;
   * AuthenticationError ERR_EAUTH_TOKEN; MasterError ERR_BAD_TGT. Nothing was published then.
   */
  run<N extends keyof C & string>(
    name: N,
    request: CommandRequest<C[N]['params']>,
  ): Promise<CommandHandle>;
  /**
   * A run that goes on, or was over not long ago.
   * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
   */
  find(id: string, caller: CommandCaller): Promise<CommandHandle>;
  /** The plans of the catalog, as callers see them. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly plans: {
    list(): readonly PlanInfo[];
    /** @throws BridgeError ERR_PLAN_UNKNOWN */
    show(name: string): PlanInfo;
    /**
     * A run that goes on, or was over not long ago.
     * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
     */
    find(id: string, caller: CommandCaller): Promise<PlanHandle>;
  };
  /**
   * Runs several commands as one. When this resolves, all of them that do not depend on a result
   * were permitted, and its key is durable.
   * @throws BridgeError ERR_PLAN_UNKNOWN, ERR_PLAN_GROUPS, ERR_COMMAND_PARAMETERS,
   * ERR_COMMAND_DENIED, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN; AuthenticationError
   * ERR_EAUTH_TOKEN; MasterError ERR_BAD_TGT. Nothing was published then.
   */
  plan<N extends keyof P & string>(
    name: N,
    request: PlanRequest<P[N]['params'], P[N]['groups']>,
  ): Promise<PlanHandle>;
  /** Its routes, for an HTTP server such as `createSaltApi` makes. */
  readonly http: BridgePlugin;
  /** Machines on their way to being minions. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly enroll: EnrollApi;
  /** Where signals go. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly handles: HandlesApi;
  /** Signals on their way. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly outbox: OutboxApi;
}

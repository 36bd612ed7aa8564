/**
 * Interface of a bridge for programs. It does not include extensions from directories other than
 * `heat-bridge/`.
 */

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

/** Types of commands by name, as `saltbridge bridge types` generates them. */
export interface CommandTypes {
  readonly [name: string]: { readonly params: object };
}

/**
 * Types of the commands that a program defines with {@link defineCommand}. If it defines none, the
 * type permits any command name.
 */
export type CommandsOf<D extends readonly CommandDefinition[]> = D extends readonly []
  ? { readonly [name: string]: { readonly params: Parameters } }
  : {
      readonly [C in D[number] as C['name']]: {
        readonly params: C extends TypedCommand<string, infer P> ? P & object : Parameters;
      };
    };

/** Types of plans by name, as `saltbridge bridge types` generates them. */
export interface PlanTypes {
  readonly [name: string]: { readonly params: object; readonly groups: string };
}

/**
 * Types of the plans that a program defines with {@link definePlan}. If it defines none, the type
 * permits any plan name.
 */
export type PlansOf<L extends readonly PlanDefinition[]> = L extends readonly []
  ? { readonly [name: string]: { readonly params: Parameters; readonly groups: string } }
  : {
      readonly [P in L[number] as P['name']]: P extends TypedPlan<string, infer A, infer G>
        ? { readonly params: A & object; readonly groups: G }
        : { readonly params: Parameters; readonly groups: string };
    };

/**
 * Options of a bridge that a program passes. All other options are in the master's configuration.
 */
export interface BridgeOptions<
  D extends readonly CommandDefinition[],
  L extends readonly PlanDefinition[],
  E extends ExtensionChoice = ExtensionChoice,
> {
  /** Commands in addition to those of `saltbridge: bridge: catalog:`. Default: none. */
  readonly commands?: D;
  /** Plans in addition to those of the catalog. Default: none. */
  readonly plans?: L;
  /**
   * Name of the service that counts as the caller if a request names no caller. Default: `bridge`.
   */
  readonly service?: string;
  /**
   * Extensions of the bridge by name. `false` disables an extension, so that its options are
   * rejected as unknown. `true` enables it even without a section in the configuration. Default:
   * according to the configuration.
   */
  readonly extensions?: E;
}

/** Bridge of a master. Pass it to `createMaster` in `extensions`. */
export interface CoreBridge<
  C extends CommandTypes = CommandsOf<[]>,
  P extends PlanTypes = PlansOf<[]>,
> extends MasterExtension {
  /**
   * Catalog of commands, as callers see it.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly commands: {
    list(): readonly CommandInfo[];
    /**
     * Returns one command.
     * @throws BridgeError ERR_COMMAND_UNKNOWN
     */
    show(name: string): CommandInfo;
  };
  /**
   * Runs a command. When the promise resolves, rules have permitted the run, and its idempotency
   * key is durable. If the promise rejects, nothing was published.
   * @throws BridgeError ERR_COMMAND_UNKNOWN, ERR_COMMAND_PARAMETERS, ERR_COMMAND_TARGET,
   * ERR_COMMAND_DENIED, ERR_COMMAND_BUSY, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN; AuthenticationError
   * ERR_EAUTH_TOKEN; MasterError ERR_BAD_TGT
   */
  run<N extends keyof C & string>(
    name: N,
    request: CommandRequest<C[N]['params']>,
  ): Promise<CommandHandle>;
  /**
   * Returns a run that is active or has ended recently.
   * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run
   */
  find(id: string, caller: CommandCaller): Promise<CommandHandle>;
  /**
   * Plans of the catalog, as callers see them.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly plans: {
    list(): readonly PlanInfo[];
    /**
     * Returns one plan.
     * @throws BridgeError ERR_PLAN_UNKNOWN
     */
    show(name: string): PlanInfo;
    /**
     * Returns a run that is active or has ended recently.
     * @throws BridgeError ERR_RUN_UNKNOWN, also if another caller started the run
     */
    find(id: string, caller: CommandCaller): Promise<PlanHandle>;
  };
  /**
   * Runs several commands as one plan. When the promise resolves, the idempotency key is durable.
   * Rules have then permitted every command, except commands with parameters that depend on results
   * of other commands. If the promise rejects, nothing was published.
   * @throws BridgeError ERR_PLAN_UNKNOWN, ERR_PLAN_GROUPS, ERR_COMMAND_PARAMETERS,
   * ERR_COMMAND_DENIED, ERR_COMMAND_KEY, ERR_BRIDGE_NOT_OPEN; AuthenticationError ERR_EAUTH_TOKEN;
   * MasterError ERR_BAD_TGT
   */
  plan<N extends keyof P & string>(
    name: N,
    request: PlanRequest<P[N]['params'], P[N]['groups']>,
  ): Promise<PlanHandle>;
  /** HTTP routes of the bridge. Pass them to `createSaltApi`, or to an HTTP server of your own. */
  readonly http: BridgePlugin;
  /**
   * API of enrolments.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly enroll: EnrollApi;
  /**
   * API of handles, the destinations of signals.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly handles: HandlesApi;
  /**
   * API of the outbox: signals that wait for delivery, and signals that failed permanently.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN
   */
  readonly outbox: OutboxApi;
}

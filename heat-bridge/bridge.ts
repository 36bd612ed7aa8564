/** The bridge from its parts: an extension of a master. */
import type { ExtensionHost, MasterExtension, OpenExtension } from '../master/index.ts';
import type { Parameters } from './catalog/argument-values.ts';
import type { CommandDefinition, TypedCommand } from './catalog/definition.ts';
import type { CommandInfo } from './catalog/describe.ts';
import type { EnrollApi } from './enroll/api.ts';
import { openEnrolment } from './enroll/open.ts';
import { parseEnrollOptions } from './enroll/options.ts';
import { BridgeError } from './errors.ts';
import { type BridgePlugin, createPlugin } from './http/plugin.ts';
import { withKeystone } from './keystone/host.ts';
import { parseSections } from './options.ts';
import { type BridgePart, joinParts } from './part.ts';
import type { CommandApi } from './run/command-api.ts';
import { openCommands } from './run/open-commands.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './run/request.ts';
import { openSignals } from './signals/open.ts';
import { addSignalRoutes } from './signals/routes.ts';
import type { HandlesApi, OutboxApi, SignalsApi } from './signals/signals-api.ts';

/** Commands by name, as `saltbridge bridge types` writes them. */
export interface CommandTypes {
  readonly [name: string]: { readonly params: object };
}

/** The types of commands that a program defines by {@link command}. */
export type CommandsOf<D extends readonly CommandDefinition[]> = {
  readonly [C in D[number] as C['name']]: {
    readonly params: C extends TypedCommand<string, infer P> ? P & object : Parameters;
  };
};

/** Commands that nothing is known of beforehand. */
export interface AnyCommands {
  readonly [name: string]: { readonly params: Parameters };
}

/** What a bridge may be told by its program; the rest stands in the master's configuration. */
export interface BridgeOptions<D extends readonly CommandDefinition[]> {
  /** Beside those of `saltbridge: bridge: catalog:`. Default: none. */
  readonly commands?: D;
  /** The service that calls where a request names no caller. Default `bridge`. */
  readonly service?: string;
}

/** The bridge of one master: give it to `createMaster` as one of its `extensions`. */
export interface Bridge<C extends CommandTypes = AnyCommands> extends MasterExtension {
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
  /** Its routes, for an HTTP server such as `createSaltApi` makes. */
  readonly http: BridgePlugin;
  /** Machines on their way to being minions. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly enroll: EnrollApi;
  /** Where signals go. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly handles: HandlesApi;
  /** Signals on their way. @throws BridgeError ERR_BRIDGE_NOT_OPEN */
  readonly outbox: OutboxApi;
}

/** The parts of a bridge whose master runs. */
interface OpenBridge {
  readonly commands: CommandApi;
  readonly enroll: EnrollApi;
  readonly signals: SignalsApi;
  readonly parts: readonly BridgePart<unknown>[];
}

/**
 * Makes it. Nothing is opened before its master is started.
 * @typeParam D - by default the types of `commands`; those of files by `saltbridge bridge types`
 */
export function createBridge<const D extends readonly CommandDefinition[] = []>(
  options: BridgeOptions<D> = {},
): Bridge<D extends readonly [] ? AnyCommands : CommandsOf<D>> {
  return new BridgeOfMaster(options);
}

class BridgeOfMaster implements Bridge<CommandTypes> {
  readonly name = 'bridge';
  readonly http: BridgePlugin = createPlugin(() => this.#opened().parts);
  readonly #options: BridgeOptions<readonly CommandDefinition[]>;
  #open: OpenBridge | undefined;

  constructor(options: BridgeOptions<readonly CommandDefinition[]>) {
    this.#options = options;
  }

  get commands(): CommandApi {
    return this.#opened().commands;
  }

  get enroll(): EnrollApi {
    return this.#opened().enroll;
  }

  get handles(): HandlesApi {
    return this.#opened().signals.handles;
  }

  get outbox(): OutboxApi {
    return this.#opened().signals.outbox;
  }

  async run(name: string, request: CommandRequest<object>): Promise<CommandHandle> {
    // Whatever it says it is, it is looked at.
    return this.#opened().commands.run(name, request as CommandRequest);
  }

  async find(id: string, caller: CommandCaller): Promise<CommandHandle> {
    return this.#opened().commands.find(id, caller);
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    if (this.#open !== undefined) {
      throw new BridgeError('ERR_BRIDGE_NOT_OPEN', 'a bridge is of one master; make another one');
    }
    const open = await openParts(host, this.#options);
    this.#open = open;
    const extension = joinParts(open.parts);
    return {
      ...extension,
      close: async () => {
        this.#open = undefined;
        await extension.close();
      },
    };
  }

  #opened(): OpenBridge {
    if (this.#open !== undefined) return this.#open;
    throw new BridgeError('ERR_BRIDGE_NOT_OPEN', "start the bridge's master first");
  }
}

/** Each part with its section of the configuration. @throws BridgeError */
async function openParts(
  master: ExtensionHost,
  { commands: definitions = [], service = 'bridge' }: BridgeOptions<readonly CommandDefinition[]>,
): Promise<OpenBridge> {
  const sections = parseSections(master.config.bridge);
  const host = withKeystone(master, sections.keystone);
  const { catalog: places = [] } = sections;
  const commands = await openCommands(host, { places, definitions, service });
  const enroll = await openEnrolment(host, parseEnrollOptions(sections.enroll, host.config));
  const signals = await openSignals(host, sections.handles);
  enroll.api.onRetire((id) => signals.dismiss(id));
  const routes: BridgePart<unknown>['routes'] = (app, doors) =>
    addSignalRoutes(app, doors, host, signals);
  return {
    commands: commands.api,
    enroll: enroll.api,
    signals: signals.api,
    parts: [commands, enroll, { ...signals, routes }],
  };
}

/**
 * Composes a bridge of several extensions of the master: one for shared state, and one for each
 * extension of the bridge.
 */

import {
  type ExtensionHost,
  type ExtPillar,
  type MasterExtension,
  masterServices,
  type OpenExtension,
  type ServiceKey,
} from '#master';
import { isWireMap } from '#minion-protocol';
import type { BridgeContext, BridgeContribution, BridgeExtension } from './bridge-extension.ts';
import type { CommandApi } from './commands/command-api.ts';
import type { CommandDefinition } from './commands/command-definition.ts';
import type { CommandCaller, CommandHandle, CommandRequest } from './commands/command-request.ts';
import type { BridgeOptions, CommandTypes, CoreBridge, PlanTypes } from './core-bridge.ts';
import { type EnabledExtensions, loadEnabled, sectionNames } from './enabled-extensions.ts';
import type { EnrollApi } from './enroll/enrolment-service.ts';
import { BridgeError } from './errors.ts';
import { type BridgePlugin, createBridgePlugin } from './http/bridge-plugin.ts';
import { parseSections } from './options.ts';
import { ownExtensions } from './own-extensions.ts';
import type { PlanApi } from './plans/plan-api.ts';
import type { PlanDefinition } from './plans/plan-definition.ts';
import type { PlanHandle, PlanRequest } from './plans/plan-request.ts';
import { bridgeServices } from './services.ts';
import type { HandlesApi, OutboxApi } from './signals/signals-api.ts';
import { Traces } from './tracing.ts';

/** Options of a bridge with commands and plans of any type. */
export type AnyBridgeOptions = BridgeOptions<
  readonly CommandDefinition[],
  readonly PlanDefinition[]
>;

/** State of a bridge while its master runs. */
interface OpenBridge extends EnabledExtensions {
  readonly host: ExtensionHost;
  readonly context: BridgeContext;
  /**
   * Features of the extensions opened so far: pillar, HTTP routes, methods of the local socket and
   * others.
   */
  readonly contributions: BridgeContribution[];
}

const namespace = 'bridge';

/** Bridge of a master. Nothing is opened before the master starts. */
export class ComposedBridge implements CoreBridge<CommandTypes, PlanTypes> {
  readonly name = 'bridge';
  readonly namespace: string = namespace;
  readonly parts: readonly MasterExtension[];
  readonly http: BridgePlugin = createBridgePlugin(
    () => this.#opened().contributions,
    () => this.#opened().host.requireCurrent(),
  );
  readonly #extensions: readonly BridgeExtension[];
  readonly #options: AnyBridgeOptions;
  #open: OpenBridge | undefined;

  /**
   * Creates the bridge.
   * @param others - extensions from directories other than `heat-bridge/`
   */
  constructor(options: AnyBridgeOptions, others: readonly BridgeExtension[]) {
    this.#options = options;
    this.#extensions = [...ownExtensions, ...others];
    this.parts = this.#extensions.map((extension) => this.#createPart(extension));
  }

  get commands(): CommandApi {
    return this.service(bridgeServices.commands).api;
  }

  get plans(): PlanApi {
    return this.service(bridgeServices.commands).plans;
  }

  get enroll(): EnrollApi {
    return this.service(bridgeServices.enrolment).api;
  }

  get handles(): HandlesApi {
    return this.service(bridgeServices.signals).api.handles;
  }

  get outbox(): OutboxApi {
    return this.service(bridgeServices.signals).api.outbox;
  }

  async run(name: string, request: CommandRequest<object>): Promise<CommandHandle> {
    // The command's schema validates the parameters at run time.
    return this.commands.run(name, request as CommandRequest);
  }

  async find(id: string, caller: CommandCaller): Promise<CommandHandle> {
    return this.commands.find(id, caller);
  }

  async plan(name: string, request: PlanRequest<object>): Promise<PlanHandle> {
    // The plan's schema validates the parameters at run time.
    return this.plans.run(name, request as PlanRequest);
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    if (this.#open !== undefined) {
      throw new BridgeError(
        'ERR_BRIDGE_NOT_OPEN',
        'the bridge has already been passed to a master; create one bridge per master',
      );
    }
    const {
      commands = [],
      plans = [],
      service = 'bridge',
      extensions: choice = {},
    } = this.#options;
    const enabled = await loadEnabled(this.#extensions, choice, host.config.bridge);
    const { sections, kinds, names } = enabled;
    const keys = sectionNames(this.#extensions, choice);
    host.beforeReload((next) => {
      parseSections(next, keys);
      return () => {};
    });
    if (sections.keystone !== undefined) {
      const { createKeystoneHolders } = await import('./openstack/keystone-tokens.ts');
      host.decorate(masterServices.tokenHolders, createKeystoneHolders(host, sections.keystone));
    }
    const traces = await Traces.open();
    const context = { sections, commands, plans, service, traces, names, kinds };
    const contributions: BridgeContribution[] = [];
    this.#open = { ...enabled, host, context, contributions };
    return {
      pillar: new BridgePillar(contributions),
      routes: [this.http],
      close: async () => {
        this.#open = undefined;
      },
    };
  }

  /**
   * Returns a service that an extension of the bridge provides.
   * @throws BridgeError ERR_BRIDGE_NOT_OPEN if the extension is not enabled
   */
  protected service<T extends object>(key: ServiceKey<T>): T {
    const found = this.#opened().host.find(key);
    if (found !== undefined) return found;
    throw new BridgeError(
      'ERR_BRIDGE_NOT_OPEN',
      `the extension ${key.name} of the bridge is not enabled; enable its section under saltbridge: bridge:`,
    );
  }

  #createPart(extension: BridgeExtension): MasterExtension {
    const { name, requires = [], after = [] } = extension;
    return {
      name: `bridge-${name}`,
      namespace,
      requires: ['bridge'],
      after: [...requires, ...after].map((it) => `bridge-${it}`),
      open: async (host) => {
        const { loaded, context, contributions } = this.#opened();
        const module = loaded.find((it) => it.extension === extension)?.module;
        if (module === undefined) return { close: async () => {} };
        const contribution = await module.open(host, context);
        contributions.push(contribution);
        const { pillar: _, addRoutes: __, ...rest } = contribution;
        return rest;
      },
    };
  }

  #opened(): OpenBridge {
    if (this.#open !== undefined) return this.#open;
    throw new BridgeError('ERR_BRIDGE_NOT_OPEN', 'the bridge is not open; start its master first');
  }
}

/** Merges the pillar data of all extensions of the bridge below the key `saltbridge`. */
class BridgePillar implements ExtPillar {
  readonly name = 'bridge';
  readonly #contributions: readonly BridgeContribution[];

  /**
   * Creates the pillar of the bridge.
   * @param contributions - contributions of the opened extensions to the bridge. The list may
   * become longer until the first minion is served
   */
  constructor(contributions: readonly BridgeContribution[]) {
    this.#contributions = contributions;
  }

  async provide(request: Parameters<ExtPillar['provide']>[0]): ReturnType<ExtPillar['provide']> {
    const pillars = this.#contributions.flatMap(({ pillar }) => pillar ?? []);
    const given = await Promise.all(pillars.map((pillar) => pillar.provide(request)));
    const maps = given.flatMap((pillar) =>
      isWireMap(pillar) && isWireMap(pillar.saltbridge) ? pillar.saltbridge : [],
    );
    return maps.length === 0 ? undefined : { saltbridge: Object.assign({}, ...maps) };
  }
}

/** The bridge from its parts: an extension of a master. */
import type { ExtensionHost, MasterExtension, OpenExtension } from '../master/index.ts';
import type { EnrollApi } from './enroll/api.ts';
import { openEnrolment } from './enroll/open.ts';
import { parseEnrollOptions } from './enroll/options.ts';
import { BridgeError } from './errors.ts';
import { type BridgePlugin, createPlugin } from './http/plugin.ts';
import { parseSections } from './options.ts';
import { type BridgePart, joinParts } from './part.ts';
import { openSignals } from './signals/open.ts';
import { addSignalRoutes } from './signals/routes.ts';
import type { HandlesApi, OutboxApi, SignalsApi } from './signals/signals-api.ts';

/** The bridge of one master: give it to `createMaster` as one of its `extensions`. */
export interface Bridge extends MasterExtension {
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
  readonly enroll: EnrollApi;
  readonly parts: readonly BridgePart<unknown>[];
  readonly signals: SignalsApi;
}

/** Makes it. Nothing is opened before its master is started. */
export function createBridge(): Bridge {
  return new BridgeOfMaster();
}

class BridgeOfMaster implements Bridge {
  readonly name = 'bridge';
  readonly http: BridgePlugin = createPlugin(() => this.#opened().parts);
  #open: OpenBridge | undefined;

  get enroll(): EnrollApi {
    return this.#opened().enroll;
  }

  get handles(): HandlesApi {
    return this.#opened().signals.handles;
  }

  get outbox(): OutboxApi {
    return this.#opened().signals.outbox;
  }

  async open(host: ExtensionHost): Promise<OpenExtension> {
    if (this.#open !== undefined) {
      throw new BridgeError('ERR_BRIDGE_NOT_OPEN', 'a bridge is of one master; make another one');
    }
    const open = await openParts(host);
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

/** Each part with its section of the configuration. @throws BridgeError ERR_BRIDGE_OPTIONS */
async function openParts(host: ExtensionHost): Promise<OpenBridge> {
  const sections = parseSections(host.config.bridge);
  const enroll = await openEnrolment(host, parseEnrollOptions(sections.enroll, host.config));
  const signals = await openSignals(host, sections.handles);
  const routes: BridgePart<unknown>['routes'] = (app, doors) =>
    addSignalRoutes(app, doors, host, signals);
  const parts = [enroll, { ...signals, routes }];
  return { parts, enroll: enroll.api, signals: signals.api };
}

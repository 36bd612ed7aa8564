import {
  type ExtPillar,
  type FileServerBackend,
  isRpcMethod,
  type MetricFamily,
  type MinionRunners,
  type NamedCommands,
  type RpcMethod,
  type RpcTable,
  type TopsProvider,
} from '../api/index.ts';
import type { InsteadOf, MasterFunction } from '../functions/index.ts';
import type { ReturnRedaction, ReturnRows } from '../jobs/index.ts';
import type { RequestType, RequestTypes, SignalIntake } from '../requests/index.ts';
import { rpcMethods } from '../rpc/index.ts';
import type { OpenExtension } from './extension.ts';
import type { HttpRoutes } from './http-routes.ts';
import type { Contributions } from './master-services.ts';
import { conflict } from './services.ts';
import { operationOfArea } from './state-area.ts';

/**
 * Name of the master in errors about an extension that uses the name of one of the master's own
 * methods or request types.
 */
const master = 'the master';

/** Collects the contributions of all extensions. Each name belongs to one extension. */
export class Collection implements Contributions {
  readonly requests: Map<string, RequestType> = new Map();
  readonly runners: Map<string, MasterFunction> = new Map();
  readonly wheel: Map<string, MasterFunction> = new Map();
  readonly minionRunners: Map<string, MinionRunners[string]> = new Map();
  readonly insteadOf: InsteadOf[] = [];
  readonly intakes: SignalIntake[] = [];
  readonly redactions: ReturnRedaction[] = [];
  readonly returnRows: ReturnRows[] = [];
  readonly pillars: ExtPillar[] = [];
  readonly files: FileServerBackend[] = [];
  readonly routes: HttpRoutes[] = [];
  tops: TopsProvider | undefined;
  commands: NamedCommands | undefined;
  /** Methods of the local socket that extensions add, by name. */
  readonly methods: Map<string, RpcMethod> = new Map();
  /**
   * Name of the extension that owns each contribution. The key consists of the kind and the name of
   * the contribution.
   */
  readonly #owners = new Map<string, string>();

  constructor() {
    for (const name of rpcMethods.keys()) this.#claim('method', name, master);
  }

  /** Adds the request types of the master itself. @throws MasterError ERR_EXTENSION_CONFLICT */
  addRequests(requests: RequestTypes): void {
    this.#addAll('request type', requests, this.requests, master);
  }

  /**
   * Adds the contributions of an extension.
   * @throws MasterError ERR_EXTENSION_CONFLICT
   */
  add(open: OpenExtension, extension: string, namespace: string): void {
    this.#addAll('request type', open.requests, this.requests, extension);
    this.#addAll('runner', open.runners, this.runners, extension);
    this.#addAll('wheel function', open.wheel, this.wheel, extension);
    this.#addAll('runner for minions', open.minionRunners, this.minionRunners, extension);
    this.#addMethods(open.rpc ?? {}, `${namespace}.`, extension);
    for (const routes of open.routes ?? []) {
      this.#claim('HTTP routes', routes.prefix, extension);
      this.routes.push(routes);
    }
    if (open.tops !== undefined) {
      this.#claim('contribution', 'tops', extension);
      this.tops = open.tops;
    }
    if (open.commands !== undefined) {
      this.#claim('contribution', 'commands', extension);
      this.commands = open.commands;
    }
    if (open.insteadOf !== undefined) this.insteadOf.push(open.insteadOf);
    if (open.intake !== undefined) this.intakes.push(open.intake);
    if (open.redactReturn !== undefined) this.redactions.push(open.redactReturn);
    if (open.returnRows !== undefined) {
      const rows = open.returnRows.bind(open);
      this.returnRows.push((jid, result) =>
        rows(jid, result).map((it) => operationOfArea(it, namespace)),
      );
    }
    if (open.pillar !== undefined) this.pillars.push(open.pillar);
    if (open.files !== undefined) this.files.push(open.files);
  }

  /**
   * Registers the names of an extension's metrics.
   * @throws MasterError ERR_EXTENSION_CONFLICT
   */
  claimMetrics(families: readonly MetricFamily[], extension: string): void {
    for (const { name } of families) this.#claim('metric', name, extension);
  }

  #addMethods(table: RpcTable, prefix: string, extension: string): void {
    for (const [name, entry] of Object.entries(table)) {
      const whole = `${prefix}${name}`;
      if (isRpcMethod(entry)) {
        this.#claim('method', whole, extension);
        this.methods.set(whole, entry);
      } else {
        this.#addMethods(entry, `${whole}.`, extension);
      }
    }
  }

  #addAll<T>(
    thing: string,
    rows: Readonly<Record<string, T>> = {},
    to: Map<string, T>,
    extension: string,
  ): void {
    for (const [name, row] of Object.entries(rows)) {
      this.#claim(thing, name, extension);
      to.set(name, row);
    }
  }

  #claim(thing: string, name: string, extension: string): void {
    const key = `${thing} ${name}`;
    const other = this.#owners.get(key);
    if (other !== undefined) throw conflict(thing, name, other, extension);
    this.#owners.set(key, extension);
  }
}

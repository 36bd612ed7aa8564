/** The interface of a part of the bridge, which is opened and closed with the master. */

import type { FastifyInstance } from 'fastify';
import type {
  ExtPillar,
  FileServerBackend,
  KeyAcceptanceHook,
  MetricFamily,
  MinionRunners,
  NamedCommands,
  OpenExtension,
  RpcTable,
  SignalIntake,
} from '#master';
import { isWireMap } from '#minion-protocol';
import type { HttpServerContext } from './http/http-server-context.ts';

/** A part of the bridge that was opened. */
export interface BridgeModule<Api> {
  /** Its share of {@link Bridge}. */
  readonly api: Api;
  /** Takes signals; of one part at most. */
  readonly intake?: SignalIntake;
  /** Below the key `saltbridge`. */
  readonly pillar?: ExtPillar;
  /** Of one part at most. */
  readonly files?: FileServerBackend;
  readonly minionRunners?: MinionRunners;
  /** For reactions; of one part at most. */
  readonly commands?: NamedCommands;
  /** What it knows of keys that minions show; of one part at most. */
  readonly advice?: KeyAcceptanceHook;
  /** Ends what hangs on the accepted key of an id. */
  onKeyLost?(id: string): Promise<void>;
  /** Methods at the local socket, called there as `bridge.<name>`. */
  readonly rpc?: RpcTable;
  /** What it measures now. */
  metrics?(): readonly MetricFamily[];
  /** Adds its routes below `/bridge/v1`. */
  readonly routes?: (app: FastifyInstance, doors: HttpServerContext) => void;
  /** The ports are bound, and the master's interface is there. */
  start?(): void;
  close(): Promise<void>;
}

/** Parts as one extension of the master; closed in the reverse order. */
export function combineModules(parts: readonly BridgeModule<unknown>[]): OpenExtension {
  const [intake] = parts.flatMap((part) => part.intake ?? []);
  const pillars = parts.flatMap((part) => part.pillar ?? []);
  const [files] = parts.flatMap((part) => part.files ?? []);
  const [advice] = parts.flatMap((part) => part.advice ?? []);
  const [commands] = parts.flatMap((part) => part.commands ?? []);
  return {
    ...(commands === undefined ? {} : { commands }),
    ...(intake === undefined ? {} : { intake }),
    ...(pillars.length === 0 ? {} : { pillar: combinePillars(pillars) }),
    ...(files === undefined ? {} : { files }),
    minionRunners: Object.assign({}, ...parts.map(({ minionRunners }) => minionRunners)),
    ...(advice === undefined ? {} : { advice }),
    onKeyLost: async (id) => {
      for (const part of parts) await part.onKeyLost?.(id);
    },
    rpc: Object.assign({}, ...parts.map(({ rpc }) => rpc)),
    metrics: () => parts.flatMap((part) => part.metrics?.() ?? []),
    start: () => {
      for (const part of parts) part.start?.();
    },
    close: async () => {
      for (const part of [...parts].reverse()) await part.close();
    },
  };
}

/** What the parts say below `saltbridge`, together. */
function combinePillars(pillars: readonly ExtPillar[]): ExtPillar {
  return {
    name: 'bridge',
    provide: async (request) => {
      const given = await Promise.all(pillars.map((pillar) => pillar.provide(request)));
      const maps = given.flatMap((pillar) =>
        isWireMap(pillar) && isWireMap(pillar.saltbridge) ? pillar.saltbridge : [],
      );
      return maps.length === 0 ? undefined : { saltbridge: Object.assign({}, ...maps) };
    },
  };
}

/** A figure with a value for each of a few words, which are values of one label. */
interface LabelledFigure {
  readonly type: 'counter' | 'gauge';
  /** Without `saltbridge_`. */
  readonly name: string;
  readonly help: string;
  readonly label: string;
}

/** A figure with a value for each of a few words. */
export function familyOf(
  { type, name, help, label }: LabelledFigure,
  values: Readonly<Record<string, number>>,
): MetricFamily {
  const samples = Object.entries(values).map(([word, value]) => ({
    labels: { [label]: word },
    value,
  }));
  return { type, name: `saltbridge_${name}`, help, labels: [label], samples };
}

/** A figure alone. */
export function figureOf(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  value: number,
): MetricFamily {
  const samples = [{ labels: {}, value }];
  return { type, name: `saltbridge_${name}`, help, labels: [], samples };
}

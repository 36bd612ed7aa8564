/** What the bridge is put together from: each part is opened with the master, and closed with it. */
import type { FastifyInstance } from 'fastify';
import type {
  ExtPillar,
  KeyAdvice,
  OpenExtension,
  RpcMethod,
  SignalIntake,
} from '../master/index.ts';
import type { HttpDoors } from './http/doors.ts';

/** A part of the bridge that was opened. */
export interface BridgePart<Api> {
  /** What {@link Bridge} gives of it. */
  readonly api: Api;
  readonly intake?: SignalIntake;
  readonly pillar?: ExtPillar;
  /** What it knows of keys that minions show; of one part at most. */
  readonly advice?: KeyAdvice;
  /** Methods at the local socket, called there as `bridge.<name>`. */
  readonly rpc?: ReadonlyMap<string, RpcMethod>;
  /** Adds its routes below `/bridge/v1`. */
  readonly routes?: (app: FastifyInstance, doors: HttpDoors) => void;
  /** The ports are bound, and the master's interface is there. */
  start?(): void;
  close(): Promise<void>;
}

/** Parts as one extension of the master; closed in the reverse order. */
export function joinParts(parts: readonly BridgePart<unknown>[]): OpenExtension {
  const intakes = parts.flatMap(({ intake }) => intake ?? []);
  const pillars = parts.flatMap(({ pillar }) => pillar ?? []);
  const [advice] = parts.flatMap((part) => part.advice ?? []);
  return {
    ...(intakes.length === 0 ? {} : { intake: joinIntakes(intakes) }),
    ...(pillars.length === 0 ? {} : { pillar: joinPillars(pillars) }),
    ...(advice === undefined ? {} : { advice }),
    rpc: new Map(parts.flatMap(({ rpc }) => [...(rpc ?? [])])),
    start: () => {
      for (const part of parts) part.start?.();
    },
    close: async () => {
      for (const part of [...parts].reverse()) await part.close();
    },
  };
}

function joinIntakes(intakes: readonly SignalIntake[]): SignalIntake {
  return {
    isWanted: (tag, sender) => intakes.some((it) => it.isWanted(tag, sender)),
    isDelayed: (tag, sender) => intakes.some((it) => it.isDelayed?.(tag, sender)),
    take: async (occurrence) => {
      const { tag, sender } = occurrence;
      for (const intake of intakes) {
        if (sender !== undefined && intake.isWanted(tag, sender)) await intake.take(occurrence);
      }
    },
  };
}

function joinPillars(pillars: readonly ExtPillar[]): ExtPillar {
  return {
    name: 'bridge',
    provide: async (request) => {
      const given = await Promise.all(pillars.map((it) => it.provide(request)));
      const maps = given.flatMap((map) => (map === undefined ? [] : [map]));
      return maps.length === 0 ? undefined : Object.assign({}, ...maps);
    },
  };
}

/** Opens what guests ask for from its parts, and reads its options. */

import Type from '#typebox';
import {
  audited,
  type ExtensionHost,
  type FileServerBackend,
  type MinionRunners,
} from '../../master/index.ts';
import type { BridgeModule } from '../bridge-module.ts';
import type { Enrolment } from '../enroll/enrolment.ts';
import type { EnrollApi } from '../enroll/enrolment-service.ts';
import { BridgeError } from '../errors.ts';
import { parseSection } from '../options.ts';
import { createStoreCoordinator } from './coordinator.ts';
import { createDataApi, type DataApi, dataMethods } from './data-api.ts';
import { addDataRoutes } from './data-routes.ts';
import { DataSpaces } from './data-spaces.ts';
import { DataValues } from './data-values.ts';
import { readGuestFiles, serveGuestFiles } from './guest-files.ts';
import { guestPillar } from './guest-pillar.ts';
import { addGuestRoutes, GuestRequests } from './guest-requests.ts';
import { GuestTokens } from './guest-tokens.ts';

// Options `saltbridge: bridge: guests:`.

const strict = { additionalProperties: false };
const Section = Type.Object(
  {
    data: Type.Optional(
      Type.Object(
        {
          bytes_per_stack: Type.Optional(Type.Integer({ minimum: 1024, maximum: 2 ** 40 })),
          keys_per_stack: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
        },
        strict,
      ),
    ),
  },
  strict,
);

/** See the section; each has a default. */
interface GuestsOptions {
  /** Of the values of one data space. Default 64 MiB. */
  readonly bytesPerStack: number;
  /** Values that one data space may have. Default 10,000. */
  readonly keysPerStack: number;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
function parseGuestsOptions(given: unknown = {}): GuestsOptions {
  const { data = {} } = parseSection('bridge:guests', Section, given);
  return {
    bytesPerStack: data.bytes_per_stack ?? 67_108_864,
    keysPerStack: data.keys_per_stack ?? 10_000,
  };
}

// The module.

export interface GuestsDeps {
  readonly section: unknown;
  readonly enroll: Pick<EnrollApi, 'show'>;
}

/** The part of the bridge that answers guests. */
export interface GuestsModule
  extends Required<Pick<BridgeModule<DataApi>, 'api' | 'close' | 'pillar' | 'routes' | 'rpc'>> {
  readonly files: FileServerBackend;
  readonly minionRunners: MinionRunners;
  /** The token of an enrolled machine. */
  tokenOf(enrolment: Enrolment): string | undefined;
  /** Takes a minion that is no more out of its data space; durable when it resolves. */
  dismiss(minion: string): Promise<void>;
}

/** @throws BridgeError ERR_BRIDGE_OPTIONS */
export async function openGuests(
  host: ExtensionHost,
  { section, enroll }: GuestsDeps,
): Promise<GuestsModule> {
  const { bytesPerStack, keysPerStack } = parseGuestsOptions(section);
  const { state, now, closing } = host;
  const coordinator = createStoreCoordinator(state);
  const spaces = await DataSpaces.open({ state, now, forget: (space) => values.forget(space) });
  const values: DataValues = new DataValues({
    spaces,
    coordinator,
    seal: (plain) => state.seal(plain),
    unseal: (sealed) => state.unseal(sealed),
    bytesPerStack,
    describeMinion: (id) => describeMinion(host, id),
    closing,
  });
  const tokens = await GuestTokens.open({
    state,
    findEnrolment: (number) => enroll.show(number).catch(unlessUnknown),
  });
  const files = await readGuestFiles();
  const requests = new GuestRequests({ host, values });
  const api = createDataApi({ spaces, values, keysPerStack });
  const as: Parameters<typeof addDataRoutes>[2]['as'] = (requester) =>
    audited(dataMethods(api), { data: api }, host.audit, requester).data;
  const local = audited(dataMethods(api), { data: api }, host.audit).data;
  return {
    api: local,
    rpc: dataMethods(local),
    pillar: guestPillar({ spaces, values, requests }),
    files: serveGuestFiles(files),
    minionRunners: requests.runners,
    tokenOf: (enrolment) => tokens.of(enrolment),
    routes: (app, doors) => {
      addDataRoutes(app, doors, { host, keysPerStack, as });
      addGuestRoutes(app, doors, {
        requests,
        tokens,
        program: files['saltbridge/saltbridge-data'],
      });
    },
    dismiss: (minion) => spaces.dismiss(minion),
    close: async () => {
      // Reads that wait end with the master's closing.
    },
  };
}

/** For whoever waits for a value of it. */
async function describeMinion(
  { master, admission }: Pick<ExtensionHost, 'admission' | 'master'>,
  id: string,
): Promise<string> {
  if (admission.keyOf(id)?.state !== 'accepted') return 'it has no accepted key';
  const isPresent = (await master().presence()).some((it) => it.id === id);
  return isPresent ? 'it is connected' : 'it is not connected';
}

function unlessUnknown(error: unknown): undefined {
  if (error instanceof BridgeError && error.code === 'ERR_ENROLL_UNKNOWN') return undefined;
  throw error;
}

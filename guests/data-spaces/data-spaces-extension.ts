/** Extension of the bridge that provides data spaces and peers. */

import {
  type BridgeExtensionModule,
  bridgeServices,
  figureOf,
  sectionProblems,
} from '#heat-bridge';
import { audited, type ExtensionHost, type MetricFamily } from '#master';
import { isRelayedAddress } from '#minion-protocol';
import { inMilliseconds } from '#runtime';
import { type CloudOptions, createCloudReader, parseCloudOptions } from '../cloud/cloud-options.ts';
import { parseGuestsSection, partsOfGuests } from '../guests-section.ts';
import { addNotificationRoute } from '../peers/peer-notifications.ts';
import { PeerPoller } from '../peers/peer-poller.ts';
import { type AddressOf, PeerDirectory } from '../peers/peers.ts';
import { readSecretFile } from '../secret-file.ts';
import { guestServices } from '../services.ts';
import type { Coordinator } from './coordinator.ts';
import { openCoordinator, parseDataOptions } from './coordinator-options.ts';
import { createDataApi, dataMethods } from './data-api.ts';
import { addDataRoutes } from './data-routes.ts';
import { DataSpaces } from './data-spaces.ts';
import { DataValues } from './data-values.ts';
import { readGuestFiles, serveGuestFiles } from './guest-files.ts';
import { createGuestIdentifier } from './guest-identifier.ts';
import { guestPillar } from './guest-pillar.ts';
import { GuestRequests } from './guest-requests.ts';
import { addGuestRoutes } from './guest-routes.ts';
import { addGuestSignalRoute } from './guest-signals.ts';
import { GuestTokens } from './guest-tokens.ts';
import { createPresence } from './presence.ts';
import { redactReturn } from './secret-returns.ts';

/**
 * Opens the extension: data spaces, peers, and the requests of guests.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
const openDataSpaces: BridgeExtensionModule['open'] = async (host, { sections, names }) => {
  const { data, peers: cloudSection } = parseGuestsSection(sections.guests, names);
  const { bytesPerStack, keysPerStack, coordinator: coordinatorOptions } = parseDataOptions(data);
  const cloud =
    cloudSection === undefined ? undefined : parseCloudOptions(cloudSection, sections.keystone);
  const secret = await readNotificationSecret(host, cloud);
  const { shared: state, closing } = host;
  const enrolment = host.use(bridgeServices.enrolment);
  const signals = host.find(bridgeServices.signals);
  const agents = host.find(guestServices.agents);
  const files = await readGuestFiles();
  const coordinator = await openCoordinator(coordinatorOptions, host);
  const forget = (space: string): Promise<void> => values.forget(space);
  const spaces = await DataSpaces.open({ state, now: host.now, forget, closing });
  const values: DataValues = new DataValues({
    spaces,
    coordinator,
    seal: (plain) => state.seal(plain),
    unseal: (sealed) => state.unseal(sealed),
    bytesPerStack,
    isShared: state.cluster !== undefined,
    describeMinion: (id) => describeMinion(host, id),
    closing,
  });
  const { enrolments } = enrolment;
  const findEnrolment = (number: string): ReturnType<typeof enrolments.get> =>
    enrolments.get(number);
  const tokens = await GuestTokens.open({ state, findEnrolment });
  enrolment.giveTokens((it) => tokens.of(it));
  enrolment.api.onRetire((id) => spaces.dismiss(id));
  enrolment.onRelease((id, owner) => spaces.dismiss(id, owner));
  const peers = new PeerDirectory(enrolments);
  const requests = new GuestRequests({ host, values, peers, addresses: addressReader(host) });
  const poller = cloud && createPoller(host, cloud, peers);
  let polling: Promise<void> = Promise.resolve();
  const plain = createDataApi({ spaces, values, keysPerStack });
  const rows = dataMethods(plain);
  const api = audited(rows, { data: plain }, host.audit).data;
  host.provide(guestServices.data, api);
  return {
    rpc: dataMethods(api),
    pillar: guestPillar({ spaces, values, requests }),
    files: serveGuestFiles(files),
    minionRunners: requests.runners,
    redactReturn: (minion, load) => redactReturn(spaces, minion, load),
    metrics: () => connectionFigures(coordinator),
    addRoutes: (app, server) => {
      const guestOf = createGuestIdentifier(server, tokens, agents);
      addDataRoutes(app, server, {
        host,
        keysPerStack,
        as: (requester) => audited(rows, { data: plain }, host.audit, requester).data,
      });
      if (secret !== undefined) {
        addNotificationRoute(app, secret, (instances) => poller?.noteChanged(instances));
      }
      addGuestRoutes(app, { requests, guestOf, program: files['saltbridge/saltbridge-data'] });
      if (signals !== undefined) {
        addGuestSignalRoute(app, { host, guestOf, intake: signals.intake });
      }
    },
    start: () => {
      state.cluster?.onHeld(() => {
        spaces.takeOver().catch((err: unknown) => {
          host.logger.error({ err }, 'could not delete the values of removed data spaces');
        });
      });
      if (poller !== undefined) polling = poller.run(closing);
    },
    // Waiting reads end when the master closes.
    close: async () => {
      await polling;
      requests.close();
      await coordinator.close();
    },
  };
};

/**
 * Reads the secret for notifications, or returns `undefined` if none is configured.
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
async function readNotificationSecret(
  host: Pick<ExtensionHost, 'config'>,
  cloud: CloudOptions | undefined,
): Promise<string | undefined> {
  if (cloud?.notificationSecret === undefined) return undefined;
  const key = 'saltbridge:bridge:guests:peers:notifications';
  return readSecretFile(cloud.notificationSecret, host, key);
}

/**
 * Returns a function that reads the connections of all minions at once, and resolves to a look-up
 * of addresses by minion. The look-up returns `undefined` if the minion is not connected or is
 * behind a relay. It also returns `undefined` if the connection may belong to another client.
 */
function addressReader(host: ExtensionHost): () => Promise<AddressOf> {
  const present = createPresence(host);
  return async () => {
    const all = await present();
    return (id) => {
      const minion = all.get(id);
      // A minion behind a relay has the relay's address, but peers cannot reach the minion at it.
      const isPlain = minion?.isSure === true && !isRelayedAddress(minion.address);
      return isPlain ? minion.address : undefined;
    };
  };
}

function createPoller(
  { closing, logger, now }: Pick<ExtensionHost, 'closing' | 'logger' | 'now'>,
  cloud: CloudOptions,
  directory: PeerDirectory,
): PeerPoller {
  const { intervalMs, fullIntervalMs } = cloud;
  const reader = createCloudReader(cloud, closing);
  const log = logger.child({ component: 'peers' });
  return new PeerPoller({ reader, directory, intervalMs, fullIntervalMs, now, log });
}

/**
 * Returns the metric `data_coordinator_connected`. It is 1 if etcd or ZooKeeper is connected, or if
 * the store holds the values, otherwise 0.
 */
function connectionFigures(coordinator: Coordinator): readonly MetricFamily[] {
  const isConnected = coordinator.isConnected?.() ?? true;
  const help =
    '1 if values of data spaces can be read and written: etcd or ZooKeeper is connected, or the store holds the values.';
  return [figureOf('gauge', 'data_coordinator_connected', help, isConnected ? 1 : 0)];
}

/**
 * Maximum time to wait for the response of a minion while its state is determined, in milliseconds.
 */
const answerMs = 1_000;

/**
 * Describes the state of a minion for an error message. A client gets the message if it has waited
 * in vain for a value of the minion.
 */
async function describeMinion(
  { admission, isReachable }: Pick<ExtensionHost, 'admission' | 'isReachable'>,
  id: string,
): Promise<string> {
  if (admission.keyOf(id)?.state !== 'accepted') return 'no accepted key';
  const isThere = await inMilliseconds(isReachable(id), answerMs);
  return isThere === true ? 'connected' : 'no response';
}

const checkDataSpaces: BridgeExtensionModule['check'] = ({ sections, names }) => {
  const { data, peers } = partsOfGuests(sections.guests);
  return [
    ...sectionProblems('bridge:guests', sections.guests, (it) => parseGuestsSection(it, names)),
    ...sectionProblems('bridge:guests:data', data, parseDataOptions),
    ...sectionProblems(
      'bridge:guests:peers',
      peers,
      (it) => it && parseCloudOptions(it, sections.keystone),
    ),
  ];
};

export const dataSpacesExtension: BridgeExtensionModule = {
  check: checkDataSpaces,
  open: openDataSpaces,
};

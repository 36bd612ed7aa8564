/**
 * The catalogue of threats. Each names the tests that show the protection, or a sentence of
 * SECURITY.md if the affected part does not exist. Families: C are vulnerabilities of other
 * products, N strangers on the network, M accepted minions, G general requirements, A users, B the
 * bridge, and H weaknesses that were found later by attacks on the finished product.
 */

/** A threat and what shows that it comes to nothing. */
export interface Threat {
  readonly id: string;
  readonly threat: string;
  /** Tests as `<file below test/>: <title as written in the file>`. */
  readonly tests: readonly string[];
  /** Words of SECURITY.md, instead of tests or for the part that tests do not cover. */
  readonly sentence?: string;
}

const strangers = (title: string): string => `security/stranger.test.ts: over \${wire}, ${title}`;
const identity = (title: string): string => `security/minions.test.ts: over \${wire}, ${title}`;
const reports = (title: string): string => `security/minions.test.ts: over \${wire}, ${title}`;
const data = (title: string): string => `security/minions.test.ts: over \${wire}, ${title}`;
const stolen = (title: string): string => `security/secrets.test.ts: with a stolen key ${title}`;
const inFile = (file: string) => (title: string) => `${file}: ${title}`;
const workBudget = inFile('runtime/work-budget.test.ts');
const targetWork = inFile('minion-protocol/targeting/work-limits.test.ts');
const fleetWork = inFile('master/targeting/work-limits.test.ts');
const mineWork = inFile('master/mine/work-limits.test.ts');
const apiWork = inFile('salt-api/work-limits.long.test.ts');
const templateWork = inFile('template/work-limits.test.ts');
const callerWork = inFile('heat-bridge/work-limits.test.ts');
const fairLimits = inFile('runtime/fair-limits.test.ts');
const signIns = inFile('master/requests/sign-in.test.ts');
const agentRelay = inFile('heat-bridge/guests/relay.test.ts');
const relayPorts = inFile('minion-protocol/relay-ports.test.ts');
const proxyHeaders = inFile('minion-protocol/proxy-header.test.ts');
const handshake = inFile('minion-protocol/handshake.test.ts');
const envelope = inFile('minion-protocol/envelope.test.ts');
const limits = inFile('minion-protocol/payload-limits.test.ts');
const messageTurns = inFile('minion-protocol/message-turns.test.ts');
const largeLoads = inFile('master/requests/large-loads.long.test.ts');
const loadReading = inFile('minion-protocol/large-loads.long.test.ts');
const requestMarks = inFile('master/requests/request-marks.test.ts');
const peers = inFile('master/peers/peer-requests.long.test.ts');
const returnBytes = inFile('master/jobs/return-bytes.test.ts');
const returns = inFile('master/jobs/returns.long.test.ts');
const reactions = inFile('master/reactions/reactions.long.test.ts');
const reactor = inFile('master/reactor/reactor.long.test.ts');
const eventText = inFile('master/reactor/reactor.long.test.ts');
const events = inFile('master/requests/events.long.test.ts');
const logins = inFile('master/eauth/logins.test.ts');
const signedReturns = inFile('master/requests/signed-returns.test.ts');
const staleMembers = inFile('master/cluster/stale-members.long.test.ts');
const users = inFile('master/eauth/user-api.long.test.ts');
const outgoing = inFile('security/secrets.test.ts');
const outbox = inFile('heat-bridge/signals/outbox.test.ts');
const held = inFile('heat-bridge/signals/outbox.test.ts');
const fairOwners = inFile('heat-bridge/signals/fair-owners.test.ts');
const owners = inFile('heat-bridge/signals/outbox.test.ts');
const commands = inFile('heat-bridge/run.long.test.ts');
const bodyLimits = inFile('salt-api/body-limits.long.test.ts');
const parameters = inFile('heat-bridge/catalog.test.ts');
const targets = inFile('master/targeting/targeting.test.ts');
const plans = inFile('heat-bridge/plans/run.long.test.ts');
const projects = inFile('heat-bridge/keystone/keystone.long.test.ts');
const keystoneTokens = inFile('heat-bridge/keystone/keystone.long.test.ts');
const deployments = inFile('heat-bridge/deployments/deployments.long.test.ts');
const groups = inFile('heat-bridge/deployments/groups.test.ts');
const oddArguments = inFile('master/runners/odd-arguments.test.ts');
const pillarMerge = inFile('master/pillar/merge.test.ts');
const pillarRequests = inFile('master/pillar/pillar-requests.test.ts');
const saltCmd = inFile('master/runners/salt-cmd.test.ts');
const largeResults = inFile('master/runners/large-results.test.ts');
const manyKeys = inFile('master/keys/many-keys.test.ts');
const sdb = inFile('master/runners/sdb.test.ts');
const httpQuery = inFile('master/runners/http.test.ts');
const executionPlans = inFile('heat-bridge/murano/execution-plans.long.test.ts');
const waitingPlans = inFile('heat-bridge/murano/waiting-plans.test.ts');
const hooks = inFile('heat-bridge/cfn-init/hooks.long.test.ts');
const installs = inFile('heat-bridge/cfn-init/install.long.test.ts');
const metadata = inFile('heat-bridge/cfn-init/metadata.test.ts');
const nesting = inFile('heat-bridge/deployments/nesting.test.ts');
const stackHandles = inFile('heat-bridge/deployments/stack-handles.test.ts');
const handleGroups = inFile('heat-bridge/signals/handle-groups.test.ts');
const deadLetters = inFile('heat-bridge/signals/dead-letters.test.ts');
const stackLimits = inFile('heat-bridge/deployments/stack-limits.test.ts');
const lateRegistrations = inFile('heat-bridge/late-registrations.test.ts');
const metadataSources = inFile('heat-bridge/deployments/sources.test.ts');
const stacks = inFile('heat-bridge/deployments/http.long.test.ts');
const guestData = inFile('heat-bridge/guests/data-space.long.test.ts');
const coordinatorOptions = inFile('heat-bridge/guests/coordinator-options.test.ts');
const authenticated = inFile('heat-bridge/guests/authenticated-coordinator.test.ts');
const secretReturns = inFile('heat-bridge/guests/secret-returns.test.ts');
const guestPeers = inFile('heat-bridge/guests/peers.long.test.ts');
const vendordata = inFile('heat-bridge/guests/vendordata.long.test.ts');
const byIdentity = inFile('heat-bridge/guests/identity.long.test.ts');
const metadataAgent = inFile('heat-bridge/guests/metadata-agent.long.test.ts');
const networkListeners = inFile('heat-bridge/guests/network-listeners.test.ts');
const agentClaims = inFile('heat-bridge/guests/agent-claims.long.test.ts');
const notifications = inFile('heat-bridge/guests/notifications.test.ts');
const shared = inFile('master/pillar/sharing.test.ts');
const sharing = inFile('master/pillar/sharing-properties.long.test.ts');
const guestSpaces = inFile('heat-bridge/guests/data-routes.long.test.ts');
const guests = inFile('security/guests.test.ts');
const outward = inFile('heat-bridge/outgoing/exchange.test.ts');
const claims = inFile('heat-bridge/enroll/claims.long.test.ts');
const auditFloods = inFile('heat-bridge/audit-floods.long.test.ts');
const lives = inFile('heat-bridge/enroll/life.long.test.ts');
const resources = inFile('master/requests/events.long.test.ts');
const clusterLog = inFile('store/log.long.test.ts');
const clusterMasters = inFile('master/cluster/masters-as-one.long.test.ts');
const clusterOffline = inFile('master/cluster/offline-cluster.long.test.ts');
const clusterDuties = inFile('master/cluster/duties.test.ts');
const clusterSignals = inFile('heat-bridge/signals/cluster.test.ts');
const clusterOrchestrations = inFile('master/orchestrate/cluster.long.test.ts');
const clusterReactions = inFile('master/reactions/cluster.test.ts');
const clusterRuns = inFile('heat-bridge/cluster.long.test.ts');
const clusterDeployments = inFile('heat-bridge/deployments/server-worker.test.ts');
const clusterGuests = inFile('heat-bridge/guests/cluster.test.ts');
const clusterKeys = inFile('master/cluster/shared-keys.test.ts');
const directoryLock = inFile('store/directory-lock.long.test.ts');
const processIdentity = inFile('store/process-identity.test.ts');
const publicationLog = inFile('master/jobs/publication-log.test.ts');
const settledJobs = inFile('client/settled-jobs.test.ts');
const failOver = inFile('client/fail-over.long.test.ts');
const eventRing = inFile('master/events/event-ring.test.ts');
const sharedProcesses = inFile('shared-master/processes.long.test.ts');
const audit = inFile('master/audit/audit-log.long.test.ts');
const sessions = inFile('salt-api/login.long.test.ts');
const sharedSessions = inFile('salt-api/shared-sessions.long.test.ts');
const bodies = inFile('salt-api/bodies.long.test.ts');
const streams = inFile('salt-api/events.long.test.ts');
const apiServer = inFile('salt-api/server.long.test.ts');
const door = inFile('salt-api/login.long.test.ts');
const confidential = inFile('security/secrets.test.ts');
const localClients = inFile('localclient/localclient.long.test.ts');
const orchestrations = inFile('master/orchestrate/orchestrate.long.test.ts');
const tenants = inFile('master/config/options.test.ts');

const identityInTheDispatcher =
  'master/requests/replay.test.ts: every forged variant of a request is refused, and counted by its reason';
const shelf = inFile('master/pillar/cache.long.test.ts');
const redaction = 'security/secrets.test.ts: no secret is logged at level trace, for any request';
const ownFiles =
  'security/secrets.test.ts: files of a master are readable by its own user only, except for public keys';
const directoryUsers = inFile('master/eauth/ldap.test.ts');
const endedKeys = inFile('heat-bridge/enroll/life.long.test.ts');
const transitions = inFile('heat-bridge/enroll/claims.long.test.ts');
const newIds = inFile('master/requests/sign-in.test.ts');
const handshakes = inFile('minion-protocol/handshake-turns.test.ts');
const httpConnections = inFile('salt-api/connections.long.test.ts');
const runQuotas = inFile('heat-bridge/run.long.test.ts');
const largeEvents = inFile('salt-api/streams.long.test.ts');
const sendQueue = inFile('runtime/limits.test.ts');
const bundleMetadata = inFile('edge/bundles/metadata.long.test.ts');
const bundlePacks = inFile('edge/bundles/packs.long.test.ts');
const bundleFiles = inFile('edge/bundles/site-files.test.ts');
const bundleRings = inFile('edge/bundles/rings.test.ts');
const clusterCentre = inFile('edge/cluster/cluster.long.test.ts');
const clusterMembers = inFile('edge/cluster/members.long.test.ts');
const siteLink = inFile('edge/hostile.long.test.ts');
const openRequests = inFile('edge/open-requests.test.ts');
const earlyAlarms = inFile('edge/early-alarms.long.test.ts');
const siteVectors = inFile('edge/link-vectors.test.ts');
const siteJoin = inFile('edge/join.long.test.ts');
const siteLog = inFile('edge/site-log.test.ts');
const siteOrders = inFile('edge/orders.long.test.ts');
const siteUp = inFile('edge/up.long.test.ts');
const statements = inFile('edge/rehoming/statement.test.ts');
const rehoming = inFile('edge/rehoming/rehoming.long.test.ts');

export const catalogue: readonly Threat[] = [
  {
    id: 'C-01',
    threat: 'a MAC is compared in a time that tells, or after decryption',
    tests: [
      'minion-protocol/envelope.test.ts: every changed bit and every cut of a blob is noticed by its HMAC',
      'minion-protocol/envelope.test.ts: bad padding is detectable only for holders of the signing key',
    ],
    sentence: 'The master compares MACs, tokens and digests with `timingSafeEqual`',
  },
  {
    id: 'C-02',
    threat: 'a pillar is fetched by somebody else',
    tests: [
      'master/requests/vectors.long.test.ts: a pillar is encrypted to the accepted key, not to one in the request',
      data('a minion gets only its own pillar, whatever id and grains it claims'),
    ],
  },
  {
    id: 'C-03',
    threat: 'an id is a path',
    tests: [strangers('requests with arbitrary ids leave no data behind')],
  },
  {
    id: 'C-04',
    threat: 'keys that are no protection: small, another exponent, no RSA',
    tests: [
      strangers('weak and missing keys are not stored'),
      `minion-protocol/envelope.test.ts: a public key with \${what} is refused`,
    ],
  },
  {
    id: 'C-05',
    threat: 'a request chooses a source of pillar',
    tests: [
      'master/requests/vectors.long.test.ts: a pillar is compiled from the verified id, the grains and the environments',
      data('a minion gets only its own pillar, whatever id and grains it claims'),
    ],
  },
  {
    id: 'C-06',
    threat: 'a forbidden function beside a permitted one',
    tests: [
      'acl/rules.test.ts: every function of a list must be permitted',
      'acl/rules.test.ts: expressions match whole functions, and each of several must be permitted',
      users('each of several functions must be permitted'),
    ],
  },
  {
    id: 'C-07',
    threat: 'unsafe temporary files; YAML that builds objects',
    tests: ['master/jobs/returns.long.test.ts: multiplying aliases are text', ownFiles],
    sentence: 'saltbridge has no SSH client and no roster',
  },
  {
    id: 'C-08',
    threat: 'a mine is written by another',
    tests: [data('only its owner writes a mine, and a mine reveals no foreign pillar')],
  },
  {
    id: 'C-09',
    threat: 'groups of root are kept',
    tests: [
      "cli/daemon.long.test.ts: a process that gives up root keeps none of root's groups, and cannot regain them",
    ],
    sentence: 'has the groups of the new account, and no longer the groups of root',
  },
  {
    id: 'C-10',
    threat: 'TLS peers are not verified on outgoing connections',
    tests: [
      outgoing('no password is sent to a directory with an invalid certificate'),
      outgoing('no password is sent to a Keystone with an invalid certificate'),
      'master/config/salt-shop.test.ts: a receiver has the options of its kind, and a NATS server has a name',
      'master/eauth/logins.test.ts: symmetric algorithms, none, and keys over plain http are invalid options',
    ],
    sentence: 'The master connects only to services that its configuration names',
  },
  {
    id: 'C-11',
    threat: 'credentials in logs',
    tests: [
      redaction,
      users('passwords and tokens do not appear in the log'),
      apiServer('passwords and tokens do not appear in the log'),
      'master/fileserver/gitfs.long.test.ts: no error or reply shows the password in an address',
    ],
  },
  { id: 'C-12', threat: 'secrets in files that others may read', tests: [ownFiles] },
  {
    id: 'C-13',
    threat: 'jobs in the clear',
    tests: [strangers('a listener without a key cannot read any part of a job')],
  },
  {
    id: 'C-14',
    threat: 'the caller chooses the service that authenticates it',
    tests: [
      logins('every failure has the same answer and the same steps of time'),
      logins('tokens of a back end that is no longer configured are refused'),
      'master/eauth/logins.test.ts: an algorithm that is not listed is refused, even if the key fits',
    ],
  },
  {
    id: 'C-15',
    threat: 'a deleted minion goes on, or leaves something to the next of its name',
    tests: [
      identity('deleting a key takes effect at once, and its successor inherits nothing'),
      'master/keys/revocation.test.ts: a later owner of the id gets its own key',
      'minion-protocol/zeromq-deadlines.test.ts: disconnecting a minion ends its request connections',
    ],
  },
  {
    id: 'C-16',
    threat: 'a kind of client without rights',
    tests: [
      users('a user that external_auth does not name has no rights'),
      users('run and batch are authorised before any job is published'),
    ],
  },
  {
    id: 'C-17',
    threat: 'the ssh client of the API',
    tests: [],
    sentence: 'saltbridge has no SSH client and no roster',
  },
  {
    id: 'C-18',
    threat: 'the shared key passes for the master',
    tests: [
      strangers('a listener without a key cannot read any part of a job'),
      'minion-protocol/envelope.test.ts: a minion that requires signatures refuses unsigned publications and those of other masters',
      identity('a minion cannot act as another minion'),
    ],
  },
  {
    id: 'C-19',
    threat: 'a crafted id passes for another',
    tests: [
      signIns('crafted ids are refused even with a correct key, signed from protocol 2 on'),
      strangers('requests with arbitrary ids leave no data behind'),
    ],
  },
  {
    id: 'C-20',
    threat: 'a crafted sign-in ends its handler',
    tests: [strangers('a malformed sign-in fails only its own request')],
  },
  {
    id: 'C-21',
    threat: 'tokens as file names',
    tests: [logins('a malformed token is unknown')],
  },
  {
    id: 'C-22',
    threat: 'the API without a valid token',
    tests: [
      users('each call checks the token'),
      sessions('missing, malformed and unknown tokens are refused alike, wherever they are sent'),
    ],
  },
  {
    id: 'C-23',
    threat: 'internal functions in the clear',
    tests: [
      strangers('only sign-ins and pings are processed without encryption'),
      'master/requests/events.long.test.ts: names of prototypes and of internal methods are unknown commands',
    ],
  },
  {
    id: 'C-24',
    threat: 'functions of the wheel leave their directories',
    tests: [
      `master/runners/runners.long.test.ts: \${what} finds and reads nothing`,
      'master/keys/key-store.test.ts: an invalid id accesses no file',
    ],
  },
  {
    id: 'C-25',
    threat: 'an expired token',
    tests: [
      logins('a token expires at its time, also if it was never used'),
      logins('a clock that is turned back does not revive a token'),
      logins('a clock that jumps past the expiry of a token ends it'),
      keystoneTokens('a token ends at its expiry, whatever was cached before'),
    ],
  },
  {
    id: 'C-26',
    threat: 'wheel without rights',
    tests: [
      'acl/rules.test.ts: runners and wheel functions require their own entries',
      users('runners and wheel functions have their own rights'),
    ],
  },
  {
    id: 'C-27',
    threat: 'pillar is written through the API',
    tests: [
      `master/runners/runners.long.test.ts: \${what} finds and reads nothing`,
      orchestrations('a file outside file_roots is not an SLS, whatever its name'),
    ],
    sentence:
      'No other wheel function and no runner can write the configuration, the pillar or file roots',
  },
  {
    id: 'C-28',
    threat: 'data are rendered as a template',
    tests: [
      'template/render.long.test.ts: values from outside are never read as templates',
      'template/render.long.test.ts: nothing of JavaScript can be reached',
      orchestrations('text of a restricted user is a value, however a file uses it'),
    ],
  },
  { id: 'C-29', threat: 'data in a shell command', tests: [], sentence: 'starts no shell' },
  {
    id: 'C-30',
    threat: 'planted files on minions',
    tests: [],
    sentence: 'A master cannot fix faults in the software of minions',
  },
  {
    id: 'C-31',
    threat: 'pillars that are not signed',
    tests: [
      data('a minion gets only its own pillar, whatever id and grains it claims'),
      `minion-protocol/envelope.test.ts: the pillar reply "\${vector.name}" is built with the same fields and sizes`,
    ],
  },
  {
    id: 'C-32',
    threat: 'answers to sign-ins that are not signed',
    tests: [strangers('a wrong key for a known id does not affect the owner of the id')],
  },
  {
    id: 'C-33',
    threat: 'publications and replies are replayed',
    tests: [
      'master/keys/key-store.test.ts: serials increase over any kills at any write, and the key stays',
      'master/requests/vectors.long.test.ts: a reply is bound to its request, and has a new IV each time',
    ],
  },
  {
    id: 'C-34',
    threat: 'a target that means nobody counts as permitted',
    tests: [
      peers('a rule for some minions does not permit jobs for others'),
      peers('a rule with grains alone reaches no minion'),
      users('no target reveals data or existence of minions that the user may not reach'),
    ],
  },
  {
    id: 'C-35',
    threat: 'locked accounts go on',
    tests: [
      logins('the token of a deleted user ends within a minute'),
      'master/eauth/file.test.ts: a user who is removed from the file, or locked in it, can no longer log in',
      'master/eauth/ldap.test.ts: a user who is locked in the directory cannot log in, and loses all tokens',
      keystoneTokens('a run ends when Keystone revokes its token'),
    ],
  },
  {
    id: 'C-36',
    threat: 'malformed requests silence the master',
    tests: [
      strangers('a malformed sign-in fails only its own request'),
      'master/hostile.long.test.ts: mutated requests, outside or inside the encryption, get possible answers, are counted, and leave no memory behind',
    ],
  },
  {
    id: 'C-37',
    threat: 'files of one environment for another',
    tests: [
      'master/fileserver/file-server.long.test.ts: a path is read with the environment of its load',
      'master/fileserver/file-server.long.test.ts: a changed file has a new hash at once',
    ],
  },
  {
    id: 'C-38',
    threat: 'predictable names of scripts',
    tests: [],
    sentence: 'saltbridge has no SSH client and no roster',
  },
  {
    id: 'C-39',
    threat: 'the id of a relay is a path',
    tests: [reports('a minion cannot start anything on others, on the master, or for a relay')],
  },
  {
    id: 'C-40',
    threat: 'files outside of the roots',
    tests: [
      data('only files below the file roots can be read'),
      'master/fileserver/gitfs.long.test.ts: invalid paths, links out of the root, submodules and .git are not served',
      'master/fileserver/gitfs.long.test.ts: ext, file and local paths are refused unless protocols names them',
      'master/fileserver/gitfs.long.test.ts: hooks in the fetched repository never run',
    ],
  },
  {
    id: 'C-41',
    threat: 'part of a pillar',
    tests: [
      'master/requests/vectors.long.test.ts: a failed pillar is an error in the reply, and never a partial pillar',
    ],
  },
  {
    id: 'C-42',
    threat: 'functions without proof of identity',
    tests: [identityInTheDispatcher, identity('a minion cannot act as another minion')],
  },
  {
    id: 'C-43',
    threat: 'requests are replayed',
    tests: [
      identity('a replayed signal is fired once, and a stale signal is not fired'),
      'master/requests/replay.test.ts: an event from before the start is not fired again by the next master',
    ],
  },
  {
    id: 'C-44',
    threat: 'pushed files go anywhere',
    tests: [
      data("a pushed file stays in the sender's folder and is never read again"),
      'master/requests/files.long.test.ts: the master accepts no files while file_recv is off',
    ],
  },
  {
    id: 'C-45',
    threat: 'a certificate without its key',
    tests: [
      `minion-protocol/stream-transports.long.test.ts: \${stream}: clients without a certificate are refused if one is required`,
    ],
  },
  {
    id: 'C-46',
    threat: 'an event is taken for a job',
    tests: [
      reports('a minion cannot start anything on others, on the master, or for a relay'),
      reactions('a signal that no rule permits starts no job'),
      reactions('without its own rule a reaction is denied, and that is reported once per burst'),
      reactions('a runner runs only with the rights of its reaction'),
      reactor('an event that no rule permits is denied, and a denied file is not rendered'),
      reactor('a grant to one file does not extend to another'),
      reactor('calls of a user whose name is that of a reaction trigger reactions'),
      reports('a minion cannot fire a tag of others in any request form'),
    ],
  },
  {
    id: 'C-47',
    threat: 'pillar on demand',
    tests: [data('a minion gets only its own pillar, whatever id and grains it claims')],
  },
  {
    id: 'C-48',
    threat: 'cached data under a name that is a path',
    tests: [strangers('requests with arbitrary ids leave no data behind')],
  },
  {
    id: 'C-49',
    threat: 'any event on the bus',
    tests: [reports('a minion cannot fire a tag of others in any request form')],
  },
  {
    id: 'C-50',
    threat: 'environments that are paths',
    tests: [
      data('only files below the file roots can be read'),
      'master/fileserver/gitfs.long.test.ts: invalid paths, links out of the root, submodules and .git are not served',
      'master/fileserver/gitfs.long.test.ts: ext, file and local paths are refused unless protocols names them',
      'master/fileserver/gitfs.long.test.ts: hooks in the fetched repository never run',
    ],
  },
  {
    id: 'C-51',
    threat: 'a pillar request writes into the key store',
    tests: [stolen('an attacker writes only under its own id, and fires only permitted events')],
  },
  {
    id: 'C-52',
    threat: 'a job id is opened as a path',
    tests: [reports('a return is accepted once, and only from a minion that the job targets')],
  },
  {
    id: 'C-53',
    threat: 'an older version leaves out newer checks',
    tests: [
      'master/requests/replay.test.ts: a minion that proved protocol 3 is refused below it, even after a restart',
      'security/secrets.test.ts: these requests can be forged until an id has proved protocol 3, and the doctor names it',
    ],
  },
  {
    id: 'C-54',
    threat: 'YAML that runs code',
    tests: ['master/jobs/returns.long.test.ts: arguments are parsed as by Salt'],
  },
  {
    id: 'C-55',
    threat: 'noise fills the log; outdated parsers',
    tests: [events('a flood of forbidden tags causes a few lines in the log')],
    sentence: 'docs/dependencies.md',
  },
  {
    id: 'N-01',
    threat: 'bytes that are not the protocol',
    tests: [
      strangers('both ports close a connection with another protocol at once'),
      'minion-protocol/frames.test.ts: 20,000 damaged streams end in events or one violation, within the limits',
      `minion-protocol/stream-transports.long.test.ts: \${stream}: a connection with another protocol is closed and counted`,
    ],
  },
  {
    id: 'N-02',
    threat: 'half-open and slow connections',
    tests: [
      'minion-protocol/zeromq-deadlines.test.ts: a message must be complete 30 seconds after its first byte',
      `minion-protocol/stream-transports.long.test.ts: \${stream}: a connection with an unfinished request is closed after 30 seconds`,
      'minion-protocol/zeromq-strangers.long.test.ts: with 900 silent connections, others are served',
    ],
  },
  {
    id: 'N-03',
    threat: 'lengths that promise gigabytes',
    tests: [
      'minion-protocol/zeromq-requests.long.test.ts: a request over the limit ends its connection, and the next connection is served',
      `minion-protocol/stream-transports.long.test.ts: \${stream}: a request over the limit is refused by its head`,
      limits('a declared length allocates no memory'),
    ],
  },
  {
    id: 'N-04',
    threat: 'MessagePack bombs',
    tests: [
      limits('a million levels are refused without a stack overflow'),
      limits('the limit of elements covers all lists and maps together'),
      limits('bytes after the value are refused'),
      envelope('an envelope with a duplicate key or a key that is not text is refused'),
      envelope('an envelope has at most 2,000 values, and an encrypted load may have more'),
    ],
  },
  {
    id: 'N-05',
    threat: 'floods of sign-ins',
    tests: [
      signIns('a flood from one address is refused without signatures, and does not delay others'),
    ],
  },
  {
    id: 'N-06',
    threat: 'the list of waiting keys is filled',
    tests: [
      signIns('pending keys are limited, in total and for each address'),
      strangers('weak and missing keys are not stored'),
    ],
  },
  {
    id: 'N-07',
    threat: 'harm to a named victim',
    tests: [strangers('a wrong key for a known id does not affect the owner of the id')],
  },
  {
    id: 'N-08',
    threat: 'a waiting key is replaced',
    tests: [
      signIns('a pending key stays, and another key is denied and counted'),
      'master/keys/key-store.test.ts: a key is accepted by its own fingerprint only',
    ],
  },
  {
    id: 'N-09',
    threat: 'state for whoever is named',
    tests: [strangers('requests with arbitrary ids leave no data behind')],
  },
  {
    id: 'N-10',
    threat: 'the master signs what somebody else wrote',
    tests: [
      strangers('the only input of a stranger that the master signs is 32 hex digits'),
      handshake('the master signs only nonces that match the grammar'),
    ],
  },
  {
    id: 'N-11',
    threat: 'lower versions and odd algorithms',
    tests: [strangers('unknown versions and algorithms get no key')],
  },
  {
    id: 'N-12',
    threat: 'replays and skewed clocks',
    tests: [
      identity('a replayed signal is fired once, and a stale signal is not fired'),
      'master/requests/replay.test.ts: a request with a wrong or malformed time stamp is refused',
    ],
  },
  {
    id: 'N-13',
    threat: 'listening without a key',
    tests: [strangers('a listener without a key cannot read any part of a job')],
    sentence: 'An observer of the network can see the sizes and times of messages',
  },
  {
    id: 'N-14',
    threat: 'subscribers that flood or do not read',
    tests: [
      'minion-protocol/zeromq-strangers.long.test.ts: a thousand topics are accepted, and one more is refused',
      'minion-protocol/topic-index.test.ts: topics that strangers choose do not make the look-ups of other topics slower',
      'minion-protocol/zeromq-requests.long.test.ts: a subscriber over its limits is skipped, and does not delay others',
      `minion-protocol/stream-transports.long.test.ts: \${stream}: a subscriber that reads nothing is skipped, and does not delay others`,
    ],
  },
  {
    id: 'N-15',
    threat: 'listening as another minion',
    tests: [
      `master/presence/presence.test.ts: an announcement \${title} is refused, and its connection stays`,
      'master/presence/presence.test.ts: an announcement with a key that is not accepted is refused',
    ],
    sentence: 'a minion announces its presence with a constant text',
  },
  {
    id: 'N-16',
    threat: 'answers tell whether a token decrypts',
    tests: [handshake('the form of the reply does not reveal whether a token decrypts')],
  },
  {
    id: 'N-17',
    threat: 'answers change places',
    tests: [
      'minion-protocol/zeromq-requests.long.test.ts: answers are sent in the order of the requests, whichever is ready first',
      'minion-protocol/envelope.test.ts: a reply to another request is refused',
    ],
  },
  {
    id: 'M-01',
    threat: 'speaking as another minion',
    tests: [identity('a minion cannot act as another minion'), identityInTheDispatcher],
  },
  {
    id: 'M-02',
    threat: 'replays and games with time',
    tests: [
      identity('a replayed signal is fired once, and a stale signal is not fired'),
      'master/requests/replay.test.ts: a nonce is 32 hex digits; anything else is refused in encrypted requests',
    ],
  },
  {
    id: 'M-03',
    threat: 'returns for others, for nothing, or twice',
    tests: [
      reports('a return is accepted once, and only from a minion that the job targets'),
      returns('fields of a return reach the event, but cannot replace sender and job'),
    ],
  },
  {
    id: 'M-04',
    threat: 'odd job ids, and self-made jobs in bulk',
    tests: [
      reports('a return is accepted once, and only from a minion that the job targets'),
      returns('self-made jobs are limited per hour'),
      'cli/status.test.ts: a job that a minion started is not attributed to a user',
      'master/jobs/returns.long.test.ts: a recorded failed state fires the events of the failure before the return',
      'master/jobs/returns.long.test.ts: the failed states in a return cannot forge events, and fire a limited number',
    ],
  },
  {
    id: 'M-05',
    threat: 'forged events in every shape',
    tests: [
      reports('a minion cannot fire a tag of others in any request form'),
      events(`no grant permits a tag of the master from a \${name} event`),
      events('the master sets the sender of an event'),
      `master/decisions/learn.long.test.ts: \${JSON.stringify(tag)} cannot be permitted by learning`,
      'master/decisions/learn.long.test.ts: requests that no rule can permit are named, and not learned',
    ],
  },
  {
    id: 'M-06',
    threat: 'jobs on others',
    tests: [
      reports('a minion cannot start anything on others, on the master, or for a relay'),
      peers('a rule for some minions does not permit jobs for others'),
      'acl/rules.test.ts: publish functions are never published, despite any rule',
    ],
  },
  {
    id: 'M-07',
    threat: 'functions of the master, and its insides',
    tests: [reports('a minion cannot start anything on others, on the master, or for a relay')],
  },
  {
    id: 'M-08',
    threat: 'requests of relays',
    tests: [reports('a minion cannot start anything on others, on the master, or for a relay')],
    sentence: 'The master rejects the requests of syndics as unknown',
  },
  {
    id: 'M-09',
    threat: 'a pillar of others',
    tests: [data('a minion gets only its own pillar, whatever id and grains it claims')],
  },
  {
    id: 'M-10',
    threat: 'a pushed file is rendered',
    tests: [
      data("a pushed file stays in the sender's folder and is never read again"),
      'master/fileserver/file-server.long.test.ts: hidden directories are not served, even below a root',
    ],
  },
  {
    id: 'M-11',
    threat: 'mines of others',
    tests: [
      data('only its owner writes a mine, and a mine reveals no foreign pillar'),
      'master/mine/mine.test.ts: no pattern reveals the pillar of another minion',
      'master/mine/mine.test.ts: a mine never exceeds its limit, for any concurrent writes',
    ],
  },
  {
    id: 'M-12',
    threat: 'expressions that explode',
    tests: [
      'master/mine/mine.test.ts: expressions that may not terminate are not run for minions',
      'minion-protocol/targeting/target.test.ts: a pattern that would make a backtracking matcher explode gets an answer',
      'master/mine/work-limits.test.ts: a minion has one query in progress, and a limited number wait',
      mineWork('a target of many functions is compiled and tested on each minion once'),
      'master/peers/peer-requests.long.test.ts: jobs of one minion are judged one at a time, and a limited number waits',
      'runtime/work-budget.test.ts: owners take turns, whatever the number of their budgets',
      'master/targeting/targeting.test.ts: targets with lookaround of one user do not delay those of another one',
    ],
  },
  {
    id: 'M-13',
    threat: 'files outside of the roots, and absurd numbers',
    tests: [
      data('only files below the file roots can be read'),
      'master/requests/files.long.test.ts: invalid offsets return no content',
      'master/requests/files.long.test.ts: an invalid level of compression is ignored',
    ],
  },
  {
    id: 'M-14',
    threat: 'pushed files without end, or elsewhere',
    tests: [
      data("a pushed file stays in the sender's folder and is never read again"),
      'master/fileserver/file-server.long.test.ts: the total size of files of a minion is limited, and small ones count with the blocks they use',
      'master/fileserver/file-server.long.test.ts: links out of the folder are not followed',
    ],
  },
  {
    id: 'M-15',
    threat: 'sizes and floods',
    tests: [
      events('events beyond the burst are dropped and counted, and others are not affected'),
      events('an oversized event is trimmed, counted and listed'),
      returns('an oversized return is counted, and the job contains a note in its place'),
      'master/requests/vectors.long.test.ts: oversized grains are named in the pillar, and not passed to providers',
      'master/requests/vectors.long.test.ts: a pillar request with too many grains or values is refused',
    ],
  },
  {
    id: 'M-16',
    threat: 'garbage under a good MAC',
    tests: [
      identity('invalid bytes inside the encryption fail only their own request'),
      'minion-protocol/envelope.test.ts: limits apply inside the encryption',
    ],
  },
  {
    id: 'M-17',
    threat: 'going on after the key was deleted',
    tests: [
      identity('deleting a key takes effect at once, and its successor inherits nothing'),
      'master/pillar/master.long.test.ts: deleting a key removes the pillar of its minion',
    ],
  },
  {
    id: 'M-18',
    threat: 'one key under two ids, one id on two machines',
    tests: ['master/doctor/doctor.long.test.ts: a machine was cloned with its key'],
    sentence:
      'The master reports accepted minion ids that have the same key, but does not reject them',
  },
  {
    id: 'M-19',
    threat: 'lines of the log, and what a terminal obeys',
    tests: [
      'security/secrets.test.ts: an id, tag, job id or command cannot write a line into the log',
      'cli/output.test.ts: control characters cannot reach the terminal',
      'cli/salt.long.test.ts: text from minions cannot control the terminal',
    ],
  },
  {
    id: 'M-20',
    threat: 'markup in returns',
    tests: [
      apiServer('every response forbids browsers to interpret it'),
      'heat-bridge/guests/compile-template.test.ts: an SVG image contains each role and value as text, whatever their names',
    ],
  },
  {
    id: 'G-01',
    threat: 'identity is the key that opened the envelope',
    tests: [identityInTheDispatcher],
  },
  {
    id: 'G-02',
    threat: 'a closed list of requests and fields',
    tests: [
      'master/requests/events.long.test.ts: names of prototypes and of internal methods are unknown commands',
      'minion-protocol/payload.test.ts: an error names the field, but not its content',
    ],
  },
  {
    id: 'G-03',
    threat: 'what is received is no path, pattern, tag or name',
    tests: [
      data('only files below the file roots can be read'),
      strangers('requests with arbitrary ids leave no data behind'),
    ],
  },
  {
    id: 'G-04',
    threat: 'grammars',
    tests: [
      envelope('a nonce consists of exactly 32 lower-case hex digits'),
      strangers('requests with arbitrary ids leave no data behind'),
    ],
  },
  {
    id: 'G-05',
    threat: 'denied unless permitted',
    tests: [
      'master/config/policy-rules.test.ts: without options only the mine and pillar environments may be read',
      peers('a minion cannot publish if peer is not set'),
    ],
  },
  {
    id: 'G-06',
    threat: 'one bad request costs one request',
    tests: [
      'master/requests/events.long.test.ts: a request whose handler fails gets an empty text, and the next one is served',
      strangers('a malformed sign-in fails only its own request'),
    ],
  },
  {
    id: 'G-07',
    threat: 'everything has a bound and an owner',
    tests: [
      'master/pillar/cache.long.test.ts: while a pillar loops to its limit, others get theirs',
      'master/pillar/cache.long.test.ts: while a file of the reactor loops to its limit, other events are processed',
      'master/rendering/renderer.long.test.ts: only the rendering that uses too much memory fails',
      shelf('records of ids without a key are removed at the start, and limits hold'),
      'minion-protocol/zeromq-deadlines.test.ts: unfinished messages of a stranger are limited over all its connections',
      'runtime/limits.test.ts: an owner has a limited number of operations in progress, and does not delay others',
      'runtime/limits.test.ts: requests over the rate wait, up to a number, and the rest are refused at once',
      'minion-protocol/zeromq-requests.long.test.ts: the number of requests of all connections in progress is limited',
      logins('concurrent log-ins of a source are limited, and others can log in meanwhile'),
    ],
  },
  {
    id: 'G-08',
    threat: 'nothing is evaluated',
    tests: [
      eventText(`an event cannot break out of its place: \${place}`),
      eventText('text of an event is neither a function nor the selector of keys'),
      'master/pillar/provided.long.test.ts: a grain that looks like a template stays text, in templates and in names of files',
      'minion-protocol/targeting/target.test.ts: nested repetition without lookaround takes linear time',
      'template/render.long.test.ts: nothing of JavaScript can be reached',
    ],
  },
  {
    id: 'G-09',
    threat: 'names that objects inherit',
    tests: [limits('names of properties of Object.prototype are ordinary keys')],
  },
  {
    id: 'G-10',
    threat: 'files of the state directory',
    tests: [
      ownFiles,
      'master/life-times.long.test.ts: folders that all users may write are refused',
    ],
  },
  {
    id: 'G-11',
    threat: 'a passphrase for the key',
    tests: [
      'master/keys/key-store.test.ts: a new key is encrypted with the passphrase, and cannot be opened with another',
      logins('the store has the digest of a token, not the token or the password'),
    ],
  },
  {
    id: 'G-12',
    threat: 'no secret is told',
    tests: [
      redaction,
      confidential('auth.mk_token creates a token for credentials, and auth.del_token revokes it'),
      confidential(
        'key.gen creates a pair without storing it, and key.gen_accept accepts the created key',
      ),
      shelf('neither the files of the store nor a backup contain text of a pillar'),
      shelf('a record opens only with its seal key and under its id'),
    ],
    sentence: 'core dumps',
  },
  {
    id: 'G-13',
    threat: 'the local door',
    tests: [
      'master/rpc/server.long.test.ts: only the user of the master can use the socket',
      'master/rpc/server.long.test.ts: oversized parameters are refused before they are parsed',
    ],
  },
  {
    id: 'G-14',
    threat: 'rights of the process',
    tests: [
      'documents.test.ts: the unit accepts notifications only of its own process, and stores no core dumps',
    ],
    sentence: 'The systemd unit',
  },
  { id: 'G-15', threat: 'dependencies', tests: [], sentence: 'docs/dependencies.md' },
  {
    id: 'G-16',
    threat: 'clocks that jump',
    tests: [
      'master/requests/replay.test.ts: a mark lasts exactly as long as its time stamp is valid',
      'minion-protocol/payload.test.ts: a jid is never issued twice, even if the clock goes backwards',
      logins('a clock that is turned back does not revive a token'),
      logins('a clock that jumps past the expiry of a token ends it'),
    ],
  },
  {
    id: 'G-17',
    threat: 'killed at any moment',
    tests: [
      'master/keys/key-store.test.ts: a killed process leaves only complete keys, and accepted ones only if it accepted them',
    ],
  },
  {
    id: 'A-01',
    threat: 'no token, or none that holds, at every endpoint',
    tests: [
      logins('a malformed token is unknown'),
      users('each call checks the token'),
      sessions('missing, malformed and unknown tokens are refused alike, wherever they are sent'),
      streams('tokens are accepted only where browsers can send them'),
    ],
  },
  {
    id: 'A-02',
    threat: 'sessions before a log-in',
    tests: [
      sessions('only a log-in creates a session'),
      sessions('every failed log-in gets the same response'),
    ],
  },
  {
    id: 'A-03',
    threat: 'identifiers that are kept over a log-in, or guessed',
    tests: [
      logins('a log-in returns a token of 256 bits with its user'),
      logins('two log-ins return different tokens'),
      logins('the store has the digest of a token, not the token or the password'),
    ],
  },
  {
    id: 'A-04',
    threat: 'log-ins in odd forms, in bulk, or to find out names',
    tests: [
      logins('every failure has the same answer and the same steps of time'),
      logins('a password that is not text is refused like a wrong one'),
      logins('five failures in a minute lock out only that user from that source'),
      logins('simultaneous attempts do not bypass the limit'),
      logins('failures of many users do not evict those of one user'),
      door('users log in only from addresses in api_acl, on every interface'),
      'heat-bridge/http.long.test.ts: a client that sends too many bad tokens waits, and no other client does',
    ],
  },
  {
    id: 'A-05',
    threat: 'tokens that outlive their user, their log-out or their time',
    tests: [
      'salt-api/identify-caller.test.ts: a log-in for one command ends if its caller cannot be identified',
      logins('only users named by token_expire_user_override may choose the lifetime of a token'),
      logins('logout and revocation take effect at once, and survive a restart'),
      logins('the token of a deleted user ends within a minute'),
      users('following a job ends with the token'),
    ],
  },
  {
    id: 'A-06',
    threat: 'kinds of client beyond the rights',
    tests: [
      users('a user may publish only what external_auth grants'),
      users('run and batch are authorised before any job is published'),
      users('runners and wheel functions have their own rights'),
      'salt-api/clients.long.test.ts: unknown and missing clients are refused before any command runs',
    ],
  },
  {
    id: 'A-07',
    threat: 'fields that say who asks',
    tests: [
      users('a user with full rights keeps the target and fields of a request, and others do not'),
      users('runners and wheel functions have their own rights'),
      orchestrations("no other caller can report under a stranger's orchestration"),
    ],
  },
  {
    id: 'A-08',
    threat: 'a permitted function carries another',
    tests: [
      users('each of several functions must be permitted'),
      'acl/rules.test.ts: a function that can run any other is permitted only by its exact name',
      'acl/rules.test.ts: a function that changes the states of minions is permitted only by its exact name',
      'salt-api/login.long.test.ts: a batch stops if a reload takes away its right',
      'salt-api/login.long.test.ts: a batch of a sudo user stops if a reload takes away its right',
      'salt-api/login.long.test.ts: a batch stops if its rule expires',
    ],
  },
  {
    id: 'A-09',
    threat: 'patterns that mean more than was written',
    tests: [
      users('a user may publish only what external_auth grants'),
      'acl/rules.test.ts: expressions match whole ids and functions',
    ],
  },
  {
    id: 'A-10',
    threat: 'targets that mean more than is permitted',
    tests: [
      users('a target means only the minions that the rules name'),
      users('a request of a restricted user is sent by name to the authorised minions'),
    ],
  },
  {
    id: 'A-11',
    threat: 'fields of a publication that a user chooses',
    tests: [
      users('a user with full rights keeps the target and fields of a request, and others do not'),
    ],
  },
  {
    id: 'A-12',
    threat: 'arguments that are taken for something else',
    tests: [users('arguments are checked as the minion receives them')],
  },
  {
    id: 'A-13',
    threat: 'reading what is others’',
    tests: [streams('a limited user sees its own jobs, and events that a rule lets it read')],
  },
  {
    id: 'A-14',
    threat: 'events through hooks',
    tests: [
      'salt-api/login.long.test.ts: a hook requires the right to fire events, and a path that is a valid tag',
    ],
  },
  {
    id: 'A-15',
    threat: 'what browsers send',
    tests: [
      bodies('only pages of listed origins may read responses'),
      sessions('a cookie identifies a session, but not for pages of other sites'),
      streams('WebSocket requires a session, and a cookie is refused for pages of other sites'),
      door('on a loopback address, every path refuses a host name of another machine'),
      door('listed host names are accepted on any address'),
      door('an address outside authorized_ips gets no data'),
    ],
  },
  {
    id: 'A-16',
    threat: 'parsers of HTTP',
    tests: [bodies('ambiguous requests are refused, and end the connection')],
  },
  {
    id: 'A-17',
    threat: 'bodies that are bombs',
    tests: [
      bodies('bodies without commands or with too many fields are refused'),
      bodies('compressed bodies are refused'),
    ],
  },
  {
    id: 'A-18',
    threat: 'streams and requests without end',
    tests: [
      streams('a log-in has at most 64 streams, and a closed one can be replaced'),
      metadataAgent('unfinished bodies of one guest leave connections of an agent to others'),
      metadataAgent(
        'unfinished bodies of the guests of one project leave requests of an agent to others',
      ),
      streams('requests of one connection hold at most one place of the event streams'),
      streams('an error ends a stream with an event that names its code, and a line in the log'),
      streams('a WebSocket whose patterns are refused gets the code of the error'),
      streams('a WebSocket that ends while its token is checked holds no place'),
      streams('an event stream that ends while its token is checked holds no place'),
      'master/events/stream-patterns.test.ts: expensive patterns end the streams of their user, and not those of others',
      'salt-api/server.long.test.ts: a connection with too many unanswered requests ends, and they are not processed',
      streams(
        'the log-ins of one user share a limit of streams, and leave streams for other users',
      ),
      streams('a WebSocket whose client is not ready ends with its log-in, or after a time'),
      'master/runners/runners.long.test.ts: the running calls of one user are limited, and leave room for others',
      'master/runners/runners.long.test.ts: the memory for the arguments of running calls is limited for each user',
      'master/runners/served.long.test.ts: the items of one user leave room in the queues for others, also after a restart',
      'master/runners/served.long.test.ts: the values of one user leave room in the banks for others',
      sdb('the variables of one user leave room for others'),
      httpQuery('queries of one user leave places for others'),
      'salt-api/formatted-events.test.ts: a return is encoded once for all readers and all states that contain it',
      'salt-api/formatted-events.test.ts: changes are combined as long as the user may send no further bytes',
      'salt-api/formatted-events.test.ts: the bytes that the streams of a user send are limited',
      'salt-api/formatted-events.test.ts: other work runs between the states of many readers',
      eventRing('the work to find a position does not grow with the number of positions'),
      eventRing('an id with two positions of one member is invalid'),
      sendQueue(
        'the queue of a reader is limited to the largest message and a margin, and a slower reader is ended',
      ),
      bodies('a body that never ends does not delay other requests'),
      'salt-api/login.long.test.ts: streams of the status page count toward the limit of streams',
      'salt-api/floods.long.test.ts: a thousand concurrent log-ins are processed a few at a time, and do not delay others',
      'salt-api/floods.long.test.ts: three hundred readers that never read do not affect others',
      orchestrations('the states of an orchestration and concurrent orchestrations are limited'),
      orchestrations('requisites that form an endless cycle end the orchestration with an error'),
      orchestrations('each state of a cycle through prereq has a result'),
      orchestrations('an orchestration ends at its deadline'),
    ],
  },
  {
    id: 'A-19',
    threat: 'paths in addresses',
    tests: [
      'salt-api/server.long.test.ts: static paths serve no other files, and missing files are 404',
    ],
  },
  {
    id: 'A-20',
    threat: 'paths and configuration in privileged functions',
    tests: [
      'salt-api/clients.long.test.ts: a right to a runner that runs jobs gives no right to the functions of these jobs',
      peers('a right to salt.execute gives a minion no right to publish jobs'),
      `master/runners/runners.long.test.ts: \${what} finds and reads nothing`,
    ],
    sentence:
      'No other wheel function and no runner can write the configuration, the pillar or file roots',
  },
  {
    id: 'A-21',
    threat: 'errors that talk',
    tests: [
      'salt-api/clients.long.test.ts: an unknown nodegroup is an unexpected error, as clients expect',
      sessions('every failed log-in gets the same response'),
    ],
  },
  {
    id: 'B-01',
    threat: 'enrolling as another',
    tests: [
      claims('a ticket is valid only for its own purpose'),
      claims('a ticket is valid until its expiry, and once'),
      claims(
        'a spent ticket stays spent after its key is deleted, and after a restore of the store',
      ),
      claims('a key that differs from the claimed one is denied and reported'),
      lives('a ticket in a grain admits the key shown with it, and a second key invalidates both'),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-02',
    threat: 'keys that outlive their purpose',
    tests: [
      lives(
        'a given pair is accepted before the machine exists, and its private half is not stored',
      ),
      lives('an enrolment expires with its pending key if its machine does not arrive in time'),
      lives('a key that ends with its machine is retired at that time'),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-03',
    threat: 'a false master or service',
    tests: [
      `heat-bridge/enroll/scripts.long.test.ts: \${client} shows the ticket to nobody but the bridge`,
      'heat-bridge/enroll/user-data.test.ts: the minion gets one id, its master, and the means to verify the master',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-04',
    threat: 'signals that are changed or sent twice',
    tests: [
      outbox('a repeated request adds nothing, even in the next process'),
      outbox('a minion that signals three times does so under one id'),
      outbox('a handle has one signal in flight, and signals arrive in order'),
      'heat-bridge/signals/outbox.test.ts: different pairs of minion and member have different ids',
    ],
  },
  {
    id: 'B-05',
    threat: 'data of another machine',
    tests: [],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-06',
    threat: 'commands that are put together',
    tests: [
      commands('a refused call never reaches a minion, and its code gives the reason'),
      commands(
        'the same key returns the same run, and with other parameters or another target it is a conflict',
      ),
      commands('a secret is only in the pillar of its minions, while the run is in progress'),
      'security/secrets.test.ts: a secret parameter appears only in the pillar of its minion',
      parameters(`parameters are refused: \${title}`),
      parameters('texts that a command line would interpret reach the minion unchanged'),
      `heat-bridge/catalog.test.ts: a catalog refuses \${title}`,
      plans('a command that is not permitted refuses the whole plan before any step runs'),
      plans('the return of a minion is checked like the input of a caller'),
      plans('a secret does not appear in any output or stored data of a plan'),
      `heat-bridge/plans/definition.test.ts: a plan is refused with \${title}`,
      'heat-bridge/run-secrets.test.ts: the secret of a run that waits is not in the pillar',
    ],
  },
  {
    id: 'B-07',
    threat: 'it was nobody',
    tests: [
      audit('removed and exchanged records are detected at any position'),
      audit('a record written again with its own hash breaks the chain'),
      'client/interface.long.test.ts: over HTTPS actions are audited with the owner of the token',
      'master/runners/large-results.test.ts: the audit log attributes keys that manage.down deletes to the user',
      audit(`an end that was \${what} while no master ran remains detectable`),
      users(
        'the audit log names the user of each log-in, its actions with their rules, and refusals',
      ),
    ],
  },
  {
    id: 'B-08',
    threat: 'addresses that a machine chose',
    tests: [
      outward('a host that is not listed gets no request'),
      outward('another port or scheme of a listed host counts as not listed'),
      outward(`a listed name that resolves to \${address} gets no request`),
      outward('the connection uses the address that was checked'),
      outward('a redirection is returned and not followed'),
      'heat-bridge/signals/outbox.test.ts: a catalog cannot refer to a host that is not listed',
      projects('the address of Keystone is requested only if its section lists it'),
    ],
  },
  {
    id: 'B-09',
    threat: 'addresses and credentials that leak',
    tests: [
      outbox('the token appears in no reply, event, reason or row of the store'),
      outbox('a secret is removed from a long response before the response is shortened'),
      'heat-bridge/outgoing/exchange.test.ts: any input is parsed or refused, and errors repeat none of it',
      projects('expired and invalid tokens of the master are never sent to Keystone'),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-10',
    threat: "one tenant sees what is the other's",
    tests: [
      tenants(`two tenants with the same \${what} are refused with both names and files`),
      tenants('a folder shared through a link is found'),
      'master/tenants.long.test.ts: a request with keys of one tenant is refused by the other',
      'master/tenants.long.test.ts: jobs, returns and events of one tenant are visible only there',
      'heat-bridge/signals/master.long.test.ts: the handle of another user looks unknown, and cannot be replaced',
      'heat-bridge/signals/master.long.test.ts: a handle requires a rule for its minions and a token',
      commands('a caller cannot reach a run with the key of another caller'),
      'heat-bridge/http.long.test.ts: a run can be started now and read later, only by its caller',
      'heat-bridge/http.long.test.ts: a plan can be started now and read or cancelled later, only by its caller',
      projects('an idempotency key belongs to the project of the token'),
      projects('a project without a rule learns nothing about the catalog'),
      projects('a handle belongs to the project of the token, and other projects cannot see it'),
      projects(
        'an enrolment belongs to the project of the token, and other projects cannot see it',
      ),
      'acl/decide.long.test.ts: the same name in another domain means another project or user',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-11',
    threat: 'floods of signals',
    tests: [
      outbox('quotas of minion and stack leave space for the others'),
      outbox('a service that never responds does not delay others'),
      'heat-bridge/signals/master.long.test.ts: signals of one minion over the limit get no reply, so that the minion repeats them',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-12',
    threat: 'storms of enrolments',
    tests: [claims('the number of open enrolments is limited')],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-13',
    threat: 'from a machine to the master, or to the cloud',
    tests: [],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-14',
    threat: 'what a deleted stack leaves',
    tests: [lives('a retired machine leaves nothing to a later owner of its id')],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'H-01a',
    threat: 'the answer to a target tells of minions that its caller may not reach',
    tests: [
      users('no target reveals data or existence of minions that the user may not reach'),
      users('a target means only the minions that the rules name'),
      users('the cost of a target does not depend on minions that the user may not reach'),
      'salt-api/login.long.test.ts: a target is reduced to the granted minions, and excludes forbidden ones',
      peers('a rule for some minions does not permit jobs for others'),
    ],
  },
  {
    id: 'H-01b',
    threat: 'pillar is read by targets, letter by letter',
    tests: [
      users('pillar is compared only by equality, and only if a rule shows it'),
      targets('a target is evaluated over a reach, and facts of other minions are not read'),
      targets('a reach may include pillar, which is compared by equality'),
    ],
  },
  {
    id: 'H-01c',
    threat: 'targets of named commands and groups of plans tell of minions beyond the grant',
    tests: [
      commands(
        'a target means the minions that rules name for the command, and does not reveal others',
      ),
      plans(
        'a group means the minions that rules name for its commands, and does not reveal others',
      ),
    ],
  },
  {
    id: 'H-01d',
    threat: 'targets of the mine tell of its owners',
    tests: [
      'master/mine/mine.test.ts: a mine cannot be read by pillar unless a rule shows it',
      'master/mine/mine.test.ts: a mine without read permission is not read from the store',
    ],
  },
  {
    id: 'H-01e',
    threat: 'the answer to a target tells which nodegroups there are, and what they are made of',
    tests: [
      users('a user cannot find out about nodegroups of minions beyond its reach'),
      'salt-api/login.long.test.ts: a target is reduced to the granted minions, and excludes forbidden ones',
      commands(
        'a target means the minions that rules name for the command, and does not reveal others',
      ),
      commands('a secret is sent to targets selected by id, not by grain'),
    ],
  },
  {
    id: 'H-05',
    threat: 'a minion comes by a secret parameter by what it says of itself',
    tests: [
      targets('secrets depend on ids and pillar values that are independent of grains'),
      commands('a secret is sent to targets selected by id, not by grain'),
      plans('a secret of a step is not sent to targets selected by grains'),
    ],
  },
  {
    id: 'H-06',
    threat: 'keywords hide from rules what a minion takes as arguments',
    tests: [
      'master/jobs/returns.long.test.ts: a duplicate keyword is published once, with the value that was checked',
      `master/jobs/returns.long.test.ts: \${what} is refused, also among several functions`,
      users('arguments are checked as the minion receives them'),
      `salt-api/clients.long.test.ts: \${client} refuses the keywords that Salt reserves`,
    ],
  },
  {
    id: 'H-02a',
    threat: 'a minion holds the master by arguments of a function that it may not call',
    tests: [
      peers('arguments of a forbidden function are not parsed'),
      peers('long arguments of a permitted function are parsed in a thread'),
    ],
  },
  {
    id: 'H-02b',
    threat: 'one request holds the event loop by YAML or a form that takes long to read',
    tests: [
      bodyLimits('no parsing step before authentication is long, for any body'),
      bodyLimits('long typed arguments of a command are parsed in a thread'),
      'salt-api/recorded.long.test.ts: no body makes the API fail, or exceed the reading limit of one step',
    ],
  },
  {
    id: 'H-02c',
    threat: 'large bodies of whoever is not known',
    tests: [
      bodyLimits('a log-in body is limited to 8 KiB'),
      bodyLimits('a request without a token is limited to 1 MiB, or to the value of the option'),
      bodyLimits('bodies of an address without an authenticated user share a budget'),
    ],
  },
  {
    id: 'H-02d',
    threat: 'a body with very many values, or very deep',
    tests: [
      bodyLimits('a body has at most 100,000 values, or the number of the option, in any format'),
      'runtime/json.long.test.ts: values and levels are counted while a text is read',
      'runtime/json.long.test.ts: no step exceeds its limit, for any text',
    ],
  },
  {
    id: 'H-02e',
    threat: 'a large command holds the event loop after it was read: by its digest, or its answer',
    tests: [
      bodyLimits('no step after a large command or in its response is long'),
      "runtime/json.long.test.ts: JSON written in steps equals the engine's, and no step exceeds its limit",
      'runtime/json.long.test.ts: UTF-8 is decoded in steps, wherever its parts are divided',
    ],
  },
  {
    id: 'H-12c',
    threat: 'the catalog is shown to callers without any right, with its targets and reasons',
    tests: [
      'heat-bridge/http.long.test.ts: the catalog shows a caller only permitted commands, without minions or rules',
      'heat-bridge/http.long.test.ts: a caller sees a plan only if a rule permits each of its commands',
      'acl/decide.long.test.ts: a caller may call commands that some rule permits and none denies',
    ],
  },
  {
    id: 'H-12p',
    threat: 'what objects inherit passes for a parameter that was not given',
    tests: [
      parameters('a parameter that was not given is not passed on, whatever its name'),
      parameters('a missing word is not replaced by another one, whatever its name'),
    ],
  },
  {
    id: 'H-12r',
    threat: "a service's answer that takes long to read",
    tests: ['heat-bridge/signals/outbox.test.ts: a response with endless tags is parsed quickly'],
  },
  {
    id: 'H-13h',
    threat: "a tenant takes another one's alias, reads its signals, or uses up its room",
    tests: [
      owners(
        'two owners use the same alias for different minions, and each signal goes to its own',
      ),
      owners('an owner cannot take or replace an alias of a minion that another owner has'),
      owners('signals of an earlier owner of an alias are not sent to the next one'),
      deadLetters('the dead letters of one owner do not replace those of others'),
      deadLetters('the minions of a project share its part of the dead-letter list'),
      deadLetters('a failed signal without a handle counts for the project that its minion had'),
      deadLetters('only the dead letters of the minions in question are read'),
      stackHandles('a stack that may no longer address a minion registers no handle for it'),
      lateRegistrations(`a \${kind} that waits is refused if its owner may no longer register it`),
      lateRegistrations('a stack that is being stored does not outlast the end of the right'),
      lateRegistrations(
        'a handle or data space that is being stored does not outlast the end of the right',
      ),
      lateRegistrations(`an HTTP request to \${what} is judged again before anything is stored`),
      lateRegistrations(`an HTTP request to \${what} watches its token until it ends`),
      owners('handles of one owner leave space for those of others'),
      owners('handles of one owner take at most as much as is free'),
      owners('a retired minion leaves the handles of an owner whose share has become smaller'),
      owners('a refused handle leaves the bytes of its owner unchanged'),
      owners('signals for the handles of one owner leave space for those of others'),
      owners('a handle for groups accepts only signals of members of these groups'),
      owners(
        'a handle that lists the minion precedes those for its groups, and the first group precedes others',
      ),
    ],
  },
  {
    id: 'H-17a',
    threat: 'a signal that was held for a handle counts for another machine of the same id',
    tests: [held('signals of a machine do not count for the next machine with its id')],
  },
  {
    id: 'H-17b',
    threat: 'signals for aliases that nobody registers fill the outbox',
    tests: [
      held('held signals of a minion are limited by held_per_minion, for each minion separately'),
      held('signals without a handle leave most bytes of the outbox to those with one'),
      fairOwners('held signals of the minions of one project leave bytes to other minions'),
    ],
  },
  {
    id: 'H-28a',
    threat: 'a minion returns in the name of another, as for a resource of that id',
    tests: [resources('a return for an unregistered resource, or for another minion, is refused')],
  },
  {
    id: 'H-27a',
    threat: 'two masters in containers of their own open one store',
    tests: [
      directoryLock(
        'a process in another network and process namespace keeps the directory, and leaves it when it is killed',
      ),
      directoryLock(
        'exactly one of many processes that start at once has the directory, after each kill -9',
      ),
      directoryLock('processes that take the directory and give it back never have it together'),
    ],
  },
  {
    id: 'H-27b',
    threat: 'a master that was replaced writes on',
    tests: [
      directoryLock(
        'a store writes nothing once another process has recorded itself as its holder',
      ),
      sharedProcesses(
        'a process that was replaced writes nothing more and holds the master no longer',
      ),
    ],
  },
  {
    id: 'H-09a',
    threat: 'another spelling of a name in a directory is another user, whom no deny rule is about',
    tests: [
      directoryUsers(
        'for any spelling of a name, the user has the name of the account in the directory',
      ),
      directoryUsers(
        'an account with several names has that of its distinguished name, or cannot log in',
      ),
    ],
  },
  {
    id: 'H-09b',
    threat: 'spellings of one name have failed log-ins of their own',
    tests: [logins('failures of one user are counted together, for any spelling of the name')],
  },
  {
    id: 'H-12b',
    threat: 'the time of a failed log-in tells who is known',
    tests: [
      logins('the time of a failure reveals neither known users nor slow back ends'),
      'master/eauth/file.test.ts: an unknown user takes as long as the slowest password',
    ],
  },
  {
    id: 'H-13a',
    threat: 'a few addresses hold all slots for log-ins',
    tests: [logins('endless addresses take no slots from those with successful log-ins')],
  },
  {
    id: 'H-24',
    threat: 'an API that a program serves without a word goes over the network in the clear',
    tests: [
      apiServer('plain HTTP is limited to loopback, unless a program permits more'),
      apiServer("without options the API follows the master's configuration"),
    ],
  },
  {
    id: 'H-03',
    threat: 'a report or an end that comes in the middle of a claim',
    tests: [
      transitions(
        'for any order of transitions of an id, a key is accepted only while its enrolment is open',
      ),
      transitions('a minion that signs in during a check of deadlines stays enrolled'),
    ],
  },
  {
    id: 'H-04',
    threat: 'a deleted key that its enrolment accepts again',
    tests: [
      endedKeys(`a key that \${who} deletes is not accepted again, in protocol \${version}`),
      endedKeys(
        'a claimed key that is deleted before its first proven request is not accepted again',
      ),
      endedKeys('a key that is deleted while no master runs is not accepted again'),
      endedKeys('a key that an operator rejects ends its enrolment and stays rejected'),
      endedKeys('a key that an operator accepts after the end of an enrolment survives a restart'),
    ],
  },
  {
    id: 'H-10a',
    threat: 'tickets that cost more to refuse than to make up',
    tests: [claims('wrong tickets of an address are limited')],
  },
  {
    id: 'H-10b',
    threat: 'alarms and repeated requests that fill the audit log',
    tests: [
      claims('a repeated alarm causes one event and two records a minute'),
      auditFloods('removals of unknown registrations write a limited number of audit records'),
      auditFloods(
        'repeated requests for enrolments and vendordata write one audit record a minute',
      ),
      auditFloods('new and replaced registrations of an owner are limited'),
    ],
  },
  {
    id: 'H-12',
    threat: 'a service that asks for less than the operator does',
    tests: [
      'heat-bridge/enroll/claims.long.test.ts: a service may raise the minimum protocol of a machine, but not lower it',
    ],
  },
  {
    id: 'H-13',
    threat: 'names that look like ids',
    tests: [
      "acl/decide.long.test.ts: a name that could be another project's id gives no right, but can deny one",
    ],
  },
  {
    id: 'H-14a',
    threat: 'ids that mean others, or look like them',
    tests: [
      newIds('an id that is a target for others, or resembles another one, is refused'),
      newIds('an accepted id continues to work with a mark, and a pending one is not accepted'),
      newIds('ids that differ only in case, and ids with the same key, are accepted and marked'),
    ],
  },
  {
    id: 'H-14b',
    threat: 'pushed files without number',
    tests: [
      'master/fileserver/file-server.long.test.ts: the number of files and folders of a minion is limited',
      'master/fileserver/file-server.long.test.ts: folders of a file that cannot be created count',
    ],
  },
  {
    id: 'H-14c',
    threat: 'pillar of another environment',
    tests: [
      'master/requests/vectors.long.test.ts: rules can limit the pillar environments of minions',
    ],
  },
  {
    id: 'H-15',
    threat: 'an operation on a denied key that reaches the accepted one',
    tests: [
      'master/runners/runners.long.test.ts: a map acts on the named folder, even if the id has a key in another',
      'master/runners/runners.long.test.ts: a map deletes or rejects the named key if an id has two',
    ],
  },
  {
    id: 'H-16',
    threat: 'a stranger who waits under an expected id',
    tests: [claims("a machine whose key follows a stranger's key waits until it has claimed")],
  },
  {
    id: 'H-07',
    threat: 'messages over WebSocket that are answered without end',
    tests: [
      streams('a WebSocket client that floods the server with messages is disconnected'),
      streams('the server stops reading from a WebSocket client that does not read'),
      streams('a refused WebSocket is closed, whatever its client does'),
    ],
  },
  {
    id: 'H-08a',
    threat: 'one address that takes all connections of the HTTP API',
    tests: [
      httpConnections('connections of an address are limited, and idle ones are closed first'),
      httpConnections('all connections are limited, and a new one replaces an idle one'),
      httpConnections('a new connection is closed if all allowed connections are busy'),
    ],
  },
  {
    id: 'H-08b',
    threat: 'connections to the HTTP API that shut minions out',
    tests: [
      httpConnections('half of the file descriptors of a process are reserved from HTTP'),
      httpConnections('any number of idle HTTP connections leaves the minion ports usable'),
    ],
  },
  {
    id: 'H-08c',
    threat: 'unfinished bodies that hold memory',
    tests: [
      httpConnections(
        'unfinished bodies of an address are limited, and the response asks for a retry',
      ),
      httpConnections('bodies in tiny parts count with their real cost'),
      httpConnections(
        'over the limit of all addresses, the request with the largest body is ended',
      ),
      httpConnections('memory for bodies is released after the responses'),
      'salt-api/answer-bytes.test.ts: returns of commands count for the user until the response ends',
      'salt-api/answer-bytes.test.ts: results of runners and wheel functions count on each path that sends them',
    ],
  },
  {
    id: 'H-08d',
    threat: 'TLS handshakes on the port of the HTTP API without end',
    tests: [
      httpConnections(
        'a TLS handshake waits for its turn, and a client that sends more meanwhile is refused',
      ),
      httpConnections('a TLS client of the API cannot renegotiate'),
    ],
  },
  {
    id: 'H-08e',
    threat: 'answers that nobody reads',
    tests: [httpConnections('a connection is ended if its client does not read a response')],
  },
  {
    id: 'H-11a',
    threat: 'one token that follows all runs that may be followed',
    tests: [
      'heat-bridge/http.long.test.ts: a caller beyond the limit of followed runs is refused before anything is published',
    ],
  },
  {
    id: 'H-11b',
    threat: 'a caller that begins runs without end',
    tests: [
      runQuotas(
        'concurrent runs of a caller are limited, and more are refused before any job is published',
      ),
      runQuotas('a plan counts as a run of its caller, but its steps do not'),
    ],
  },
  {
    id: 'H-11c',
    threat: 'a caller whose runs push those of others out of what is remembered',
    tests: [runQuotas('finished runs of others do not evict those of a caller')],
  },
  {
    id: 'H-13r',
    threat: 'readers of events over the interface who read nothing',
    tests: [
      largeEvents(
        `over \${form}, a slow reader is informed that events are missing, and disconnected`,
      ),
    ],
  },
  {
    id: 'H-20',
    threat: 'large events that wait for many slow readers',
    tests: [
      sendQueue(
        'the queue of a reader is limited to the largest message and a margin, and a slower reader is ended',
      ),
      sendQueue('a message queued for many readers counts once'),
      sendQueue('beyond the limit of all readers the slowest is ended, and the others continue'),
      sendQueue('a connection whose incomplete message is too large is ended at once'),
      largeEvents('events of 5 MB reach each reader, over every stream'),
    ],
  },
  {
    id: 'H-28',
    threat: 'whoever knows the shared key of old protocols returns for another minion',
    tests: [
      signedReturns('a return without a signature is refused if one is required'),
      signedReturns(
        'a wrong signature is refused if verification is required, and a missing one is accepted',
      ),
      signedReturns('the shared key of old protocols does not let a minion return for another'),
      signedReturns(
        `a return signed like by minions \${name} is accepted, and refused if it was changed`,
      ),
    ],
  },
  {
    id: 'H-40',
    threat:
      'a process with another policy shares a master, and puts it in force when it takes over',
    tests: [
      sharedProcesses(
        'a process with another option is refused, and the error names the option and no value',
      ),
    ],
  },
  {
    id: 'H-41',
    threat: 'a process that hangs is to be ended, and another one has its id by now',
    tests: [
      processIdentity('a process that reuses the id of a former holder is not ended'),
      processIdentity('a holder of another PID namespace or another kernel is not ended'),
    ],
  },
  {
    id: 'H-42',
    threat: 'a command runs twice because the process that published it ended',
    tests: [
      settledJobs('a job that the next holder has stored is not published again'),
      publicationLog('each publication is noted before it is sent'),
      publicationLog('jobs of a process that may be running, or of another kernel, are undecided'),
      sharedProcesses(
        'when the holder is killed another process takes over, and what was acknowledged is there',
      ),
    ],
  },
  {
    id: 'H-30a',
    threat: 'the author of a template permits code, a command or a minion',
    tests: [
      deployments(`a deployment with \${what} is refused, and Heat gets the reason`),
      deployments('a script not pinned in the catalog does not run'),
      deployments('a script gets only the inputs that its entry names'),
      deployments('a minion not permitted by a rule gets no job'),
      installs('metadata not pinned by an entry is refused'),
      groups(`a config \${what} fails with the reason`),
      groups(`json-file refuses to write \${bad}`),
      groups('an input that Ansible would read as a template is refused'),
      deployments('a template can name only minions in its registration'),
      deployments('a server is the minion of its enrolment if both have the same project'),
      deployments('a service that is not listed gets no request, whoever names it'),
      stacks('a stack with minions that no rule names is not registered'),
      'heat-bridge/deployments/stack-rights.test.ts: a stack keeps the roles of its registration, and the current rules decide',
    ],
  },
  {
    id: 'H-30b',
    threat: 'a deployment runs twice',
    tests: [
      deployments(`a deployment read by \${kind} runs once and signals the address from Heat`),
      deployments('an unchanged entry does not run again, and an update runs only changed entries'),
      deployments(
        'a run that is too old for its key to be certain is unknown, and does not run again',
      ),
      'heat-bridge/deployments/crash.long.test.ts: after the master is killed during deployments or their signals, each ends once',
    ],
  },
  {
    id: 'H-30c',
    threat: 'metadata, results and requests to Heat without bounds',
    tests: [
      deployments('a result that is too large for the transport is truncated, with a note'),
      deployments('metadata over the size limit is not read'),
      deployments('200 servers are read at the rate of the interval, from the start'),
      deployments('requests stay within polls_per_second, for any number of servers'),
      hooks('a hook with an endless name or value never runs, and is not recorded'),
      hooks('a deployment with an endless name fails with the reason'),
      clusterDeployments('records of the stacks of one owner share a limit on their size'),
      metadataSources('metadata of a server are read in steps'),
      metadataSources('an answer that is already known is not read again'),
      metadataSources('one owner has a limited number of answers that are read or wait'),
      metadataSources('hooks that watch too many values together never run'),
      stackLimits(`the \${what} of the stacks of one owner leaves space for those of others`),
      stackLimits('a registration names a limited number of services'),
      stackLimits('a list of stacks is made in slices'),
      clusterDeployments(`a \${what} waits while the records of the owner reach their limit`),
    ],
  },
  {
    id: 'H-30d',
    threat: 'what one stack has is used for another',
    tests: [
      deployments('the credentials of a stack are not used for other stacks'),
      deployments('secrets of a stack are not shown, and a removed stack is not followed'),
      deployments('a secret repeated by a service does not appear in the reason'),
      deployments('handles named by a server are registered for its minion'),
      deployments('a retired machine is not a server of any stack'),
      stacks(
        'a stack belongs to the user who registers it; its secrets are hidden, and other users cannot see it',
      ),
    ],
  },
  {
    id: 'H-50a',
    threat: 'guest: what one stack writes is read, or written, by a guest of another',
    tests: [
      guests('a guest cannot read or write data of a stack in which it has no role'),
      guestData('a value is written once unless it is declared as versioned, and only by its role'),
      guestData(
        'stacks with the same name and different owners are separate, and a minion is in one of them',
      ),
      guestData('values that wait for each other and unknown roles are refused'),
      guestSpaces('a data space with minions that no rule names is not registered'),
      authenticated('a value that another program wrote or moved is refused by name'),
    ],
  },
  {
    id: 'H-50b',
    threat: 'guest: a secret value is read by somebody else',
    tests: [
      guests('a secret value is not sent to a minion whose replies others can decrypt'),
      guestData(
        'secret values are sealed in the store, and no value is logged in the audit log or shown',
      ),
      coordinatorOptions('invalid options of a coordinator are refused, each with its key'),
    ],
  },
  {
    id: 'H-50c',
    threat: 'guest: values without bounds',
    tests: [
      guestData('a stack that would exceed its quota is refused with the name of the quota'),
      guestData('a value is a text of at most 64 KiB'),
      guestData('registrations of one owner leave space for those of others, and release it'),
      guestData('registrations of one owner take at most as much as is free'),
      guestData('waiting reads of the guests of one owner leave places for those of others'),
      guestData('a space has a limited number of roles, and each role of attributes'),
      guestData('a pillar reads each value once, and contains at most 16 MiB of values'),
      guestData(
        'a pillar with many large values is read with pauses, and no further than necessary',
      ),
      guestData('a read does not search all attributes of its role'),
      guestData(`a registration with many \${what} is parsed with pauses, and unchanged`),
      coordinatorOptions('an oversized frame of ZooKeeper ends the connection'),
    ],
  },
  {
    id: 'H-50d',
    threat: 'guest: one guest passes for another, or needs no rule',
    tests: [
      guests('a guest that claims to be another guest is treated as itself'),
      guests('without a rule, a guest learns nothing, not even whether a data space exists'),
      guestData('a token is valid for its own machine until the machine is retired'),
      guestData('reading and writing require a rule, and rules may name keys'),
      guestData(
        'the pillar of a guest contains the values that it may read and that are known at its start',
      ),
    ],
  },
  {
    id: 'H-50e',
    threat: 'guest: a guest learns of, or is told, machines that are not of its project',
    tests: [
      guestPeers('each guest among 500 instances in 20 projects sees only its own project'),
      guestPeers(
        'the second machine sees the first as soon as that is enrolled, without any cloud',
      ),
      guestPeers(
        "a port with a device id set by a tenant is not attributed to another project's instance",
      ),
      guestPeers('peers require a rule and a token'),
      guestPeers(
        'lists of peers that a process of a guest requests leave the pillar of its machine complete',
      ),
    ],
  },
  {
    id: 'H-50f',
    threat: 'guest: vendordata gives a ticket to somebody else, or a second one',
    tests: [
      vendordata('five simultaneous requests get the same ticket, and none after its use'),
      vendordata('the ticket is not stored, and is the same after a restart'),
      vendordata('only the service that a rule names gets a reply'),
      vendordata('instances without a rule get nothing, and the guest cannot change that'),
      vendordata('an id from name and project is issued once, and only if it is a valid id'),
      vendordata('malformed and too many requests are refused'),
    ],
  },
  {
    id: 'H-50g',
    threat: 'guest: a neighbour, a forged header or a request again is taken for an instance',
    tests: [
      metadataAgent(
        'one address in two networks means two instances, to Nova with its signature and to the master',
      ),
      metadataAgent('forged headers of a guest have no effect, and do not identify another guest'),
      metadataAgent('through a router, an instance is found only in one of its networks'),
      metadataAgent(
        'the master accepts a request of an agent once, while it is fresh, and for the given project',
      ),
      'heat-bridge/guests/agent-credentials.test.ts: a nonce that another member accepted is stored beyond the limits',
      metadataAgent('a weak secret and an invalid secret file are refused at the start'),
      metadataAgent(
        'Neutron returns the port of an address in its network, or of a link-local address by its MAC',
      ),
      networkListeners(
        'without a proxy, an instance is identified by its connection, whatever its request claims',
      ),
      networkListeners(
        'connections of one address to a network are limited, and others have their own limit',
      ),
    ],
  },
  {
    id: 'H-50h',
    threat: 'guest: an instance enrols that no rule means, twice, or as somebody else',
    tests: [
      byIdentity('an instance that matches a rule gets its user-data until it has claimed'),
      byIdentity(
        'an instance of another project, image, network, zone or agent gets the reply for an unknown one',
      ),
      byIdentity(
        'two instances never share an id, and a later instance gets it after the first is retired',
      ),
      byIdentity('no data from a guest changes its identity, and only agents get a reply'),
      byIdentity('an instance that asks too often must wait, and other instances need not'),
      byIdentity('an instance may ask 20 times at once, and again every two seconds'),
      byIdentity('an instance has one enrolment, whether by Nova or by itself'),
      byIdentity('without a rule all requests are refused'),
      byIdentity('every mistake in the rules is reported with its line'),
    ],
  },
  {
    id: 'H-50i',
    threat:
      'guest: a PROXY header of somebody else is believed, or all behind a relay count as one',
    tests: [
      relayPorts('a client that is not a listed relay is disconnected, whatever header it sends'),
      relayPorts('a connection with a missing, wrong or long header is closed'),
      relayPorts('a connection is closed if its header does not arrive in time'),
      relayPorts(
        'a header from a guest is ignored, after the header of its relay and on other ports',
      ),
      relayPorts('limits apply to each address in the header, not to the relay'),
      agentRelay(
        'a connection that a proxy passes on reaches the master with instance and project',
      ),
      agentRelay('connections of an instance are limited, and unidentified clients have none'),
      proxyHeaders('a header that is malformed or too long is refused at the first such byte'),
      proxyHeaders(
        'foreign values are skipped, and known values must be present once and well formed',
      ),
    ],
  },
  {
    id: 'H-50j',
    threat: 'guest: through an agent, an instance claims or signals what is not its own',
    tests: [
      agentClaims(
        'a machine claims with its ticket and the facts found by the agent, and both must agree',
      ),
      agentClaims(
        'a ticket for an instance, or for the identity given by a relay, is refused for others',
      ),
      agentClaims('a guest sends permitted signals through the agent, or with its token'),
    ],
  },
  {
    id: 'H-50k',
    threat: 'guest: a notification says what peers are, or leads to requests without end',
    tests: [
      notifications(
        'an instance is a peer as soon as a notification has named it, with the data from Nova',
      ),
      notifications(
        'a flood of notifications causes a limited number of requests, spread over the polls',
      ),
    ],
  },
  {
    id: 'H-31',
    threat: 'init metadata, or a parameter of an installation, is more than a value',
    tests: [
      metadata('no text of metadata becomes an id, a key or a requisite of a state'),
      metadata('a value that Salt would execute is refused, and encoded as content of a file'),
      metadata(`the path \${JSON.stringify(bad)} is refused`),
      metadata(`the address \${bad} is refused`),
      metadata('test_cfn_init_runs_list_commands_without_shell: arguments are not interpreted'),
      metadata('config sets that refer to each other repeatedly are refused, even without configs'),
      metadata('a run with too many states or bytes is refused'),
      metadata('the files of a run share one limit of bytes and of tags'),
      metadata('labels of states count as bytes of the run'),
      nesting('a deployment with an endlessly nested config fails with the reason'),
      nesting('an endlessly nested input is named'),
      metadata('Mustache that is invalid, or that grows endlessly, is refused'),
      installs(`the catalog refuses a parameter as \${what}`),
      installs('a service installs the entry of the catalog with its own values'),
      hooks('a template cannot signal a handle that its stack has not registered'),
    ],
  },
  {
    id: 'H-32',
    threat: 'an execution plan of Murano runs its own code, or one that nobody has signed',
    tests: [
      executionPlans(`a body that is \${JSON.stringify(body)} is refused`),
      executionPlans(`an execution plan that Murano's agent refuses is refused (\${at})`),
      executionPlans('downloads, format 1 and Berkshelf are refused'),
      executionPlans('a signature is valid for one guest and one text'),
      executionPlans('without a key, all plans are refused unless unsigned plans are permitted'),
      executionPlans(
        'the same execution plan again returns the same run, and an older one is refused',
      ),
      executionPlans('a user without rights on a guest learns nothing about its stamps'),
      executionPlans(`an execution plan with \${what} is refused`),
      executionPlans('an execution plan without an id gets no reply'),
      waitingPlans(
        'execution plans of one caller that wait for a guest do not block other callers',
      ),
      waitingPlans('an endlessly nested execution plan is malformed'),
      waitingPlans('execution plans of one caller for many guests leave places for other callers'),
      waitingPlans('execution plans of one caller wait with a limited number of bytes'),
      waitingPlans('an execution plan with many values is refused, and read in steps'),
      waitingPlans('a caller without rights on a guest does not wait for its execution plans'),
    ],
  },
  {
    id: 'H-33',
    threat: 'a runner reads, keeps or asks more than the configuration says',
    tests: [
      sdb('profiles of the configuration refer to variables and files, as in Salt'),
      sdb('stored variables are limited'),
      reactor('an invalid reactor, one beyond the limit, and a request of a user are refused'),
      httpQuery('only listed hosts get requests, like in Salt, within limits'),
    ],
  },
  {
    id: 'H-70a',
    threat: "local client: a program of another account acts with the rights of the master's",
    tests: [
      localClients(
        'a request with a wrong or missing key is refused, and publishes and emits nothing',
      ),
      localClients('the key is valid only for its own account'),
    ],
  },
  {
    id: 'H-70b',
    threat: "local client: salt-api sends the key along, and every user of it has root's rights",
    tests: [
      localClients('a log-in takes precedence over a key in the same request'),
      localClients(
        'a large request whose log-in cannot be read exactly does not get the rights of its key',
      ),
    ],
  },
  {
    id: 'H-70c',
    threat: 'local client: another account reads the key or the events, or fires some',
    tests: [
      localClients('only the account of the master can use key, configuration and sockets'),
      localClients(
        'another account reads neither key nor events, and fires none, even inside the directory',
      ),
    ],
  },
  {
    id: 'H-70d',
    threat: 'local client: what is no request or event, or is never read, costs others theirs',
    tests: [
      localClients('a malformed request of a client gets an error and has no other effect'),
      localClients('a large request is unpacked only if its key or log-in is valid'),
      localClients('a client that fires an invalid event is disconnected, and others are served'),
      localClients('a reader that does not read events is disconnected, with a line in the log'),
    ],
  },
  {
    id: 'H-85a',
    threat: 'cluster: members that apply the same entries do not hold the same',
    tests: [
      clusterLog('clocks that differ by a minute have no effect on members'),
      clusterLog('neither of two members with different content continues'),
      clusterLog('a member that differs from the majority stops, and the others continue'),
    ],
  },
  {
    id: 'H-85b',
    threat: 'cluster: a write is acknowledged that only one machine has',
    tests: [clusterLog('a write is acknowledged only when a second member has applied it')],
  },
  {
    id: 'H-85c',
    threat: 'cluster: a write takes effect twice',
    tests: [
      clusterLog('an append with an unknown outcome is repeated, and takes effect once'),
      clusterLog('a duplicate entry in the log takes effect once'),
      clusterLog('an earlier opening and its repeated writes have no effect'),
    ],
  },
  {
    id: 'H-85d',
    threat: 'cluster: a member that was replaced, or has lost a lease, writes on',
    tests: [
      clusterLog('a token replaced by another member fences a write'),
      clusterLog('messages from a replaced member have no effect'),
    ],
  },
  {
    id: 'H-85e',
    threat: 'cluster: who has the log alone reads, forges, takes out or replaces entries',
    tests: [
      'cluster/cipher.test.ts: messages with forged sessions do not displace the keys of the members',
      'cluster/cipher.test.ts: the keys of other sessions do not displace that of a member that writes',
      clusterLog('the log reveals nothing of a write, and only members with the secret add to it'),
      clusterLog('removed or replaced entries stop the store'),
      clusterLog('a replaced entry is noticed while the store is open'),
    ],
  },
  {
    id: 'H-85f',
    threat: 'cluster: a write is larger than an entry of the log may be',
    tests: [clusterLog('a write too large for an entry is refused before any write')],
  },
  {
    id: 'H-86a',
    threat: 'cluster: who has a used or old ticket, or reads the secret, becomes a member',
    tests: [
      clusterMasters('a ticket can be used once'),
      // biome-ignore lint/suspicious/noTemplateCurlyInString: as it is written there
      clusterMasters('a ticket ${title} is refused, and nothing is changed'),
      clusterKeys('a secret file readable by others is refused'),
    ],
  },
  {
    id: 'H-86b',
    threat: 'cluster: a key that is deleted at one member serves at another one',
    tests: [
      clusterMasters('a key that one member deletes is removed at the other, with its connection'),
      clusterKeys('a session is removed in the same write as its accepted key'),
      clusterKeys('a publish key replaced by one member is not restored by another'),
    ],
  },
  {
    id: 'H-86c',
    threat: 'cluster: members decide differently about one session, one jid or one message',
    tests: [
      clusterKeys('a minion that signs in at two members at once has one session'),
      clusterKeys('two members decide about a key at once, and one of them is refused'),
      clusterKeys('two members store jobs with the same jid at once, and one job is stored'),
      clusterKeys('a return that two members accept at once is stored once, and known to both'),
      clusterKeys('a repeated message is not processed again'),
      clusterKeys('a message from before the start of a member is not processed'),
      clusterMasters('a repeated request at another member has no second effect'),
      clusterMasters(
        'two members publish jobs with the same jid at once, and one job is published',
      ),
    ],
  },
  {
    id: 'H-86d',
    threat: 'cluster: what one member is to do is done by two',
    tests: [
      clusterDuties('one member has the duties, and another takes them over when it leaves'),
      clusterDuties('a restarted member continues its duties'),
      clusterDuties(
        'the schedule runs at the member with the duties, including missed runs of the previous member',
      ),
    ],
  },
  {
    id: 'H-86k',
    threat: 'cluster: a reaction runs at two members',
    tests: [
      clusterReactions('the effects of one event at two members are queued once'),
      clusterReactions(
        'another member takes over the work of a lost member, which can then end nothing',
      ),
      clusterReactions('a process that has lost a run without notice has no effect'),
    ],
  },
  {
    id: 'H-86i',
    threat:
      'cluster: a signal is delivered by two members, or a handle or a ticket is given to two',
    tests: [
      clusterSignals('a delivery by a member that has lost the lease has no effect'),
      clusterSignals(
        'a signal in the dead-letter list is retried once, whichever member gets the request',
      ),
      clusterSignals(
        'two members register handles of one alias at once, and one of them is refused',
      ),
      'heat-bridge/enroll/repository.test.ts: one of two members that change the same enrolment at once is refused',
    ],
  },
  {
    id: 'H-86j',
    threat: 'cluster: a run of the bridge is run by two members',
    tests: [
      clusterRuns('the same key at two members at once starts one run'),
      clusterRuns('a run belongs to one member, and other members write nothing of it'),
      clusterRuns('runs with and without a key continue at another member if their member leaves'),
      clusterRuns('a run ends if its deadline passes after its member is gone'),
    ],
  },
  {
    id: 'H-105',
    threat: 'cluster: stacks, data spaces and instances are those of one member alone',
    tests: [
      clusterRuns('the member with the lease follows a stack of another member, for all'),
      clusterDeployments('a member that has lost the lease can no longer change deployments'),
      clusterGuests('a value written at one member reaches a reader that waits at another'),
      clusterGuests(
        'a value of a space that another member removes at the same time is removed too',
      ),
      clusterGuests('a minion is in one space, even if two members register it at the same time'),
      clusterGuests('an instance has one ticket, even at a member that has not received it yet'),
      'heat-bridge/murano/waiting-plans.test.ts: a stamp accepted by one member of a cluster is refused by the others',
    ],
  },
  {
    id: 'H-106',
    threat: 'a user learns of the job of somebody else by its job id, or takes its place',
    tests: [users('a restricted user can choose and follow only its own job ids')],
  },
  {
    id: 'H-107',
    threat: 'over the HTTP API, methods of the bridge do more than their caller may',
    tests: [clusterRuns('a client of the bridge continues at the next member, with its rights')],
  },
  {
    id: 'H-108',
    threat: 'cluster: more runs of a reaction at a time than it may have',
    tests: [
      clusterReactions('the concurrent runs of a reaction are limited over all members'),
      clusterReactions('the member with the run repeats a failed write once the store accepts it'),
    ],
  },
  {
    id: 'H-109',
    threat: 'cluster: whoever reads the store uses the sessions of the HTTP API',
    tests: [
      sharedSessions(
        'a session of one member is valid at all, and the store contains no usable session',
      ),
    ],
  },
  {
    id: 'H-110',
    threat: 'cluster: a session of the HTTP API goes on at another member after its end',
    tests: [
      sharedSessions(
        'a session that is closed at one member is closed everywhere, even if it is in use',
      ),
      sharedSessions('use at any member counts, and is written once per quarter of the idle time'),
      'server/serve.long.test.ts: a session of one member holds at the other, with its end, and when the first is gone',
    ],
  },
  {
    id: 'H-112',
    threat: 'cluster: an orchestration is done twice, or by two members',
    tests: [
      clusterOrchestrations(
        'an orchestration continues at another member when its own leaves, and repeats no step',
      ),
      clusterOrchestrations(
        'a step without a job ends as interrupted after its member is gone, and the rest continues',
      ),
      clusterOrchestrations(
        'a member that has lost an orchestration to another begins no further steps',
      ),
      clusterOrchestrations('an orchestration ends if the SLS differ at the next member'),
    ],
  },
  {
    id: 'H-113',
    threat: 'cluster: a job that other members publish is in no audit log',
    tests: [clusterMasters('an unconfirmed job that may have been published is audited')],
  },
  {
    id: 'H-114',
    threat: 'thousands of small or useless messages in one read occupy the main thread',
    tests: [
      messageTurns('thousands of small requests in one read are handled in many turns'),
      messageTurns('an address with one request does not wait for the requests of another address'),
      messageTurns('addresses take turns, and each gets its share of a turn'),
      messageTurns(
        'all addresses together have a maximum, and those that were not served come first',
      ),
      messageTurns('a minion does not wait for the messages of other minions'),
      messageTurns('a connection whose requests are refused is ended, unless as many are verified'),
      'master/requests/replay.test.ts: a connection learns which of its requests were refused, not which the master failed to answer',
    ],
  },
  {
    id: 'H-114a',
    threat: 'strangers keep the master busy with TLS handshakes',
    tests: [
      handshakes('one turn of the event loop starts four handshakes, and addresses take turns'),
      handshakes('an ended connection uses no place in a turn'),
      handshakes('handshakes of known addresses do not wait for those of strangers'),
      handshakes('handshakes of strangers use half of the time while connections arrive'),
      handshakes('a handshake waits for a turn only after its whole ClientHello has arrived'),
      handshakes('a ClientHello in several records is awaited as a whole'),
      handshakes(
        'a connection counts as a new one of its address before and during its handshake, but not while it waits',
      ),
      handshakes(
        'the bytes of an incomplete or waiting ClientHello count as memory of its address',
      ),
      handshakes('a connection is refused if too many handshakes wait'),
      handshakes('a client that sends more before the answer is refused'),
      handshakes('a client that needs a second ClientHello is refused'),
      handshakes('a malformed ClientHello is refused once'),
      handshakes('the private key is not used for RSA key exchange, unless ciphers are configured'),
      handshakes('a client is served with a key share of any group, whatever else it supports'),
      handshakes('a client cannot renegotiate'),
      handshakes('a ClientHello in too many records is refused'),
      handshakes('a ClientHello is read the same in any records'),
      handshakes('any bytes can be read as a ClientHello'),
      handshakes(`a connection is refused with a ClientHello \${title}`),
      handshakes('a connection is refused with a ClientHello of any size'),
    ],
  },
  {
    id: 'H-86m',
    threat: 'cluster: who has one master writes its audit log anew',
    tests: [
      audit('a rewritten log is not the one that another member has noted'),
      audit('a truncated log ends before the record that another member has noted'),
    ],
  },
  {
    id: 'H-86f',
    threat: 'cluster: what was revoked serves on at a member that is cut off',
    tests: [
      clusterMasters(
        'after a long disconnection, a master refuses minions and tokens until it has caught up',
      ),
      clusterMasters('a master that receives no entries of the log becomes stale'),
      staleMembers(
        'a member whose thread was blocked is stale until it has compared its position again',
      ),
      staleMembers(
        'a member with a full disk becomes stale, and continues when space is available',
      ),
    ],
  },
  {
    id: 'H-86e',
    threat: 'cluster: the store of a member is changed beside its log',
    tests: [
      clusterOffline(
        'the state and the keys of a master become those of a cluster, and of a master again',
      ),
      clusterMasters('a member that is alive cannot be removed'),
    ],
  },
  {
    id: 'H-87',
    threat: 'cluster: a master that is taken to another place loses or gains something on its way',
    tests: [
      clusterOffline('an incomplete or unsuitable export is refused and leaves nothing behind'),
      clusterOffline(
        'a master is copied into a new cluster as its first member, and out of it again',
      ),
    ],
  },
  {
    id: 'H-88',
    threat:
      'cluster: a log is begun anew under members that write to it, or with what it never had',
    tests: [
      clusterOffline('a cluster is restored to a position from a backup and the log'),
      clusterLog('a backup is advanced to a position or a time with later entries of the log'),
    ],
  },
  {
    id: 'H-89',
    threat:
      'cluster: the NATS user of a member may more than it needs, or its credentials are read',
    tests: [
      'store/log-nats.long.test.ts: the documented rights suffice, fewer are refused, and more are reported',
      clusterKeys('a secret file readable by others is refused'),
    ],
  },
  {
    id: 'H-86g',
    threat: 'cluster: a call that goes on to the next master is done twice, or waits for ever',
    tests: [
      settledJobs('a job is not continued at a master that does not store it'),
      settledJobs('a job that the next master receives meanwhile is looked up once more'),
      settledJobs('read-only calls are repeated, and calls with possible effects are not'),
      failOver('a runner without an answer is not called again'),
      failOver('a drained member accepts no new calls, and completes those in progress'),
      failOver('the client leaves an unresponsive master, and the call continues'),
      failOver('an address that would send a token in the clear is refused'),
    ],
  },
  {
    id: 'H-86h',
    threat: 'cluster: a reader of events misses some, or reads them twice, at the next member',
    tests: [
      eventRing('an id is valid at a member that received the same events in a different order'),
      eventRing('events that the next member receives later are not emitted twice'),
      eventRing('readers are notified of events of another member that did not arrive'),
      failOver('a stream of events continues at the next master, and delivers each event once'),
    ],
  },
  {
    id: 'H-95',
    threat: 'cluster: who follows a job is not told what another member has taken of it',
    tests: [
      clusterMasters('a return that arrives before the acknowledgement of its job is reported'),
    ],
  },
  {
    id: 'H-96',
    threat:
      'cluster: what was acknowledged is lost, or done twice, when masters, servers and lines fail',
    tests: [
      'cluster/campaign.long.test.ts: acknowledged work reaches every master, whichever masters, servers and links fail',
    ],
  },
  {
    id: 'H-147a',
    threat: 'patterns and targets of one request hold the master for seconds',
    tests: [
      workBudget('a budget refuses the step that exceeds it, and names the part'),
      workBudget('bytes and limits of single parts are refused with the same code'),
      workBudget('one slice runs in each turn of the event loop'),
      fleetWork('a target of a minion ends at the budget of its request'),
      fleetWork('several targets of one request share its budget'),
      fleetWork('no slice of a long evaluation is long'),
    ],
  },
  {
    id: 'H-147b',
    threat: 'one pattern costs more than its length: counted repeats, sets, searches in grains',
    tests: [
      targetWork('the steps of a glob are proportional to its length and to the text'),
      targetWork('a long glob with wildcards is refused before it is parsed'),
      targetWork('a segment with wildcards counts each position where it is tried'),
      targetWork('the size of the sets of all globs together is limited'),
      targetWork('counted repeats multiply, and a large program is refused before it is compiled'),
      targetWork('backtracking patterns have the same limits'),
      targetWork('the size of the programs of all terms together is limited'),
      targetWork('the branches of an expression are counted before matching begins'),
      targetWork('the search in grains is limited for each minion'),
      targetWork('the limit on parts of an expression also holds inside maps'),
      targetWork('the number of words of a compound target is limited'),
    ],
  },
  {
    id: 'H-147c',
    threat: 'a minion stores an allow_tgt that holds whoever reads its mine',
    tests: [
      fleetWork('a stored target has its own budget'),
      mineWork('a value with a costly allow_tgt is not stored, and others of the request are'),
      mineWork('a stored value with a costly allow_tgt is withheld, but no other value'),
      mineWork('the targets of one update share a budget, and equal ones are compiled once'),
    ],
  },
  {
    id: 'H-147d',
    threat: 'a restricted user holds the master by targets, globs and filters of events',
    tests: [
      apiWork('a costly target is refused by name on each client with a target'),
      apiWork('costly globs are refused by runners and wheel functions'),
      apiWork('the patterns of an event reader are limited'),
    ],
  },
  {
    id: 'H-147e',
    threat: 'filters of templates, YAML and Mustache cost more than their statements',
    tests: [
      templateWork('the indentation of JSON counts before it is made'),
      templateWork('counted repeats of a regular expression are bounded'),
      templateWork('matching counts the length of the text times the branches of the expression'),
      templateWork('an expression is compiled once for each rendering'),
      templateWork('a slice counts the items that it copies'),
      templateWork('wide formats with grouped digits count their digits'),
      templateWork('levels of YAML are counted before they are parsed'),
      templateWork('YAML that a filter reads counts its characters'),
      templateWork('wrapping a long word reads it once, and counts its lines'),
      callerWork('a Mustache template is read once, also if it is nothing but braces'),
      callerWork('user-data that is large or deep is searched for the name, and not parsed'),
    ],
  },
  {
    id: 'H-471',
    threat: 'a text from outside is a call, a reference or an encrypted block for Salt',
    tests: [
      parameters('a state refuses text that Salt would interpret, quoted or not'),
      parameters('a schema may permit text that Salt interprets'),
      metadata('a value that Salt would execute is refused, and encoded as content of a file'),
      guestData('a value that Salt would interpret is refused with the reason'),
      guestData('an existing value that Salt would interpret is not sent to readers'),
      'heat-bridge/guests/peers.long.test.ts: a name that Salt would interpret is not sent to peers',
      reactor('text of an event that Salt would interpret is refused as a value'),
      reactions('a value of an event that Salt would interpret starts no job'),
      users('a limited user cannot send text that Salt would interpret'),
      groups('SLS refuses inputs and names from Heat that Salt would interpret'),
      executionPlans('a parameter that Salt would interpret is refused'),
      plans('no command receives a return that Salt would interpret'),
      peers('a minion cannot pass on text that Salt would interpret'),
    ],
  },
  {
    id: 'H-472',
    threat: 'one owner takes the share of others of a limited resource',
    tests: [
      'edge/order-limits.test.ts: the orders of one user for an absent site do not block those of others',
      'edge/order-limits.test.ts: orders whose validity has ended do not count as waiting',
      'edge/order-limits.test.ts: the number of waiting orders of a user is kept, not counted for each order',
      'heat-bridge/tracing.test.ts: many runs of one caller do not evict the traces of others',
      pillarRequests(
        'a minion has 4 pillar requests in progress, 64 may wait, and further ones get an error',
      ),
      'master/rendering/large-templates.test.ts: a template that is large for one minion is large for all after four minions',
      'master/rendering/large-templates.test.ts: one minion cannot evict the large templates of others',
      'master/rendering/large-templates.test.ts: texts that are parsed for one minion leave those of others in the cache',
      'salt/owned-cache.test.ts: an owner at its limit evicts its own least recently used entry',
      'salt/owned-cache.test.ts: the cache reports whether it holds an added entry',
      'master/extensions/extensions.long.test.ts: targets of one requester delay those of another requester by one turn',
      `master/runners/turns.test.ts: many calls of \${each.fun} by one user delay another user by one turn`,
      'master/runners/turns.test.ts: many calls of one user that change queues delay another user by one call',
      users('many users that follow jobs take turns, and one user has one turn'),
      'master/jobs/jobs-api.long.test.ts: the question about a job counts for the requester that follows the job',
      'master/jobs/jobs-api.long.test.ts: the time to answer the question starts when the question is published',
      fairLimits('waiting owners take turns'),
      fairLimits('a reserved slot is for an owner that has none'),
      keystoneTokens(
        'tokens from one address leave turns at Keystone to other addresses and to accepted tokens',
      ),
      keystoneTokens('results for invalid tokens do not evict those for accepted ones'),
      fairOwners('owners of handles at one service take turns'),
      fairOwners('pending signals of several owners leave entries and bytes to a new owner'),
      'runtime/budget.test.ts: an owner may hold a multiple of the free amount, and new owners find a share',
      'heat-bridge/guests/agent-credentials.test.ts: requests of the instances of one project leave nonces to other projects',
      guestPeers(
        'a list of peers reads as many machines as it shows, however many the project has',
      ),
      guestPeers('peers in lists are limited for each project'),
      byIdentity('waiting requests of the instances of one project leave room for other projects'),
      fairLimits('half of the waiting places are for owners that have none'),
      fairLimits('a table of single rows refuses another owner, but not a row that it replaces'),
      fairLimits('the owner of an address is an IPv4 address or a network of 64 bits'),
      'limits.test.ts: no limiter is outside of the registry',
      users('the returns of a job count for the user who started it'),
      returnBytes('a user may use as much space as is free, and leaves space to others'),
      returnBytes('a user without space for returns may start no further jobs'),
      `heat-bridge/not-sent-runs.test.ts: a command whose return was not stored: \${what}`,
      returnBytes('returns of the operator and of all services count for one owner'),
      returnBytes('other large fields of a return are not stored either'),
      returnBytes('jobs that a minion starts itself count for the minion, with their arguments'),
      returnBytes('all minions together leave space to users and the operator'),
      returnBytes('returns of resources that a job did not ask for count for the minion'),
      returnBytes('a minion with large returns leaves space to the returns of other minions'),
      returnBytes('large returns of a minion count after a restart, until they expire'),
      returnBytes('highstate returns of 5 MB from 15,000 minions are stored'),
      returnBytes('results of runners count for the user who called the runner'),
      returnBytes('stored returns count after a restart, and few returns write the count'),
      returnBytes('the count in the store is never too low while returns arrive at the same time'),
      returnBytes('repeated returns and failed writes do not count'),
      returnBytes('expired returns do not count, also after a change of keep_jobs_seconds'),
      returnBytes('names of owners of any form are counted'),
      returnBytes('the disk space is measured again, and no return waits for it'),
      returnBytes('returns are limited if the size of the disk is unknown, and a warning says so'),
      returnBytes('the disk space of a store includes its size and the free space'),
      returnBytes('the returns that other members of a cluster store count'),
      returnBytes('the large returns that other members of a cluster store count for their minion'),
      users('the jobs of one user store a limited number of bytes, and those of another user fit'),
      'heat-bridge/idempotency-keys.test.ts: runs under idempotency keys of one caller store a limited number of bytes',
      'runtime/worker-pool.long.test.ts: a long text of one caller does not wait for those of another',
      'runtime/worker-pool.long.test.ts: a rendering for one minion does not wait for those of another',
      'master/keys/rsa-pool.test.ts: an address has its turn while another one has 300 operations waiting',
      "master/keys/key-generator.test.ts: the pairs of a caller do not take the threads of libuv's pool",
      'master/keys/key-generator.test.ts: a caller gets no larger key than key_bits, and few may wait',
      'master/eauth/login-limits.test.ts: failed log-ins from one IPv6 network are counted together',
      'master/eauth/login-limits.test.ts: overlapping log-ins that did not fail do not count as failures',
      sdb('a file is parsed for the user who asks'),
      'master/eauth/login-limits.test.ts: many sources do not take the slots of a new one',
      "master/eauth/token-owners.test.ts: the sessions of a user outlast another user's 50,011 log-ins",
      "master/eauth/token-owners.test.ts: the tokens of a user outlast another user's log-ins",
      "salt-api/shared-sessions.long.test.ts: a user's sessions do not end those of another user",
      'salt-api/shared-sessions.long.test.ts: unknown sessions of some addresses do not stop the waiting for those of another',
      'master/jobs/returns.long.test.ts: the bytes of self-made jobs are bounded, and highstates of 5 MB fit',
      'master/audit/audit-log.long.test.ts: entries with one key count as one, and the last is in the summary',
      'heat-bridge/run-returns.test.ts: ended runs hold a limited number of bytes of returns for each caller and in total',
      'heat-bridge/run-returns.test.ts: returns beyond the bytes of a caller are omitted from active runs, with a reason',
      'heat-bridge/run-returns.test.ts: the returns of many small values count with their memory',
      'heat-bridge/run-secrets.test.ts: the secrets of the runs of one caller leave room in the pillar of a minion for others',
      'heat-bridge/run-secrets.test.ts: the parameters of the active runs of one caller have a limited size',
      'master/fileserver/file-server.long.test.ts: invented environments share the lists of __env__',
      'master/orchestrate/orchestrate.long.test.ts: a user can stop only its own orchestration, and leaves places to other users',
      streams(
        'the streams of a user do not count for a user of another back end with the same name',
      ),
      'master/requests/events.long.test.ts: a registration that is not a map of ids is refused and changes nothing',
      'master/targeting/targeting.test.ts: names that a fleet uses are shared after a minion has invented many',
      `minion-protocol/stream-transports.long.test.ts: \${stream}: subscribers share the memory of the publications that are held`,
      reactions('one sender cannot use up the rate of a reaction'),
      reactions('one sender cannot fill the queue of a reaction'),
      requestMarks('the requests of a minion leave one row of limited size'),
      requestMarks('the latest requests are recognized, also by another process'),
      requestMarks('mines and self-made jobs keep one row of marks for each minion'),
      peers('returns that do not fit into a reply are replaced by an error text'),
      peers('replies of minion_publish to one minion share the bytes of returns'),
      peers('one reply with returns is read at a time for each minion, and few requests wait'),
    ],
  },
  {
    id: 'H-473',
    threat: 'a client that only has access to NATS replays or forges messages of a cluster',
    tests: [
      'master/cluster/masters-as-one.long.test.ts: a replayed request for a chunk does not keep the backup for a new member',
      'cluster/join-service.test.ts: a member deletes the backup for a new member if it cannot hand it over',
      'cluster/join-service.test.ts: a member that closes leaves no backup for a new member behind',
      'cluster/join-service.test.ts: a member deletes the backups that an earlier process left behind',
      'cluster/join-service.test.ts: a member sends only the chunk that was requested last again, and after a pause',
      clusterMasters('a forged frame that a ticket is unknown does not end a join'),
    ],
  },
  {
    id: 'H-474',
    threat: 'a value of a field blocks the master, or reveals an internal error',
    tests: [
      sharedSessions('many expired sessions are removed in slices'),
      reactions('the runs of a reaction and of a sender are counted without reading them'),
      'security/hostile-matrix.test.ts: hostile input to each entry of the tables causes bounded work, and the honest owner is served',
      users('a call has at most 1,000 keyword arguments'),
      users('a call has at most 10,000 positional arguments, and a job at most 1,000 functions'),
      bodies('a call with a long result causes no warning of Node.js'),
      'runtime/json.long.test.ts: a map of a long text has at most 32,768 members, however many maps and values there are',
      'master/fileserver/file-server.long.test.ts: a reply for a prefix is a part of the packed list, for any size',
      'master/fileserver/file-server.long.test.ts: a long list is sorted and packed in slices, once for all requests that wait',
      'runtime/sort-in-slices.test.ts: a list of 100,000 texts is sorted in slices',
      'runtime/schema-errors.test.ts: mistakes beside a long list are described without a visit to each of its entries',
      'master/rpc/server.long.test.ts: wrong parameters are named, with the expected type, and without a stack',
      'edge/secrets.long.test.ts: a key without a shared secret is refused as a malformed request',
      `minion-protocol/targeting/work-limits.test.ts: a target with too many or too long parts is refused: \${title}`,
      'minion-protocol/targeting/work-limits.test.ts: targets are refused by their size before they are published',
      'minion-protocol/targeting/work-limits.test.ts: a long list pauses often while it is compiled',
      'master/peers/peer-requests.long.test.ts: a time that is not a number is an empty reply, and not an error',
      'security/odd-values.test.ts: a return of states may contain any value where a text belongs',
      'security/odd-values.test.ts: the format version of an execution plan may be any value',
      'master/runners/slices.test.ts: a scan of the stored jobs pauses often, with and without a filter',
      'master/runners/slices.test.ts: the jobs that a scan found are described with pauses',
      'master/runners/slices.test.ts: many globs are compiled and compared with one job in several slices',
      'master/runners/slices.test.ts: much metadata is compared with one job in several slices',
      'master/runners/slices.test.ts: wanted metadata is written as text once, and equal entries match',
      'master/runners/slices.test.ts: many returns and many running jobs are read with pauses',
      'master/runners/slices.test.ts: items of a queue are packed and unpacked with pauses',
      secretReturns('the work for a return grows with its arguments, not with their square'),
      secretReturns('the work for a returned pillar does not grow with the secret attributes'),
      returns('secrets are removed only from returns that are stored or emitted'),
      metadata('services that watch too many states are refused'),
      outbox('only the beginning of a long reason is examined'),
      outbox('data that is too large for a signal is converted only as far as it fits'),
      hooks('a field of a hook that is no text is reported with its name'),
      hooks('config sets that are no text fail the deployment of the init metadata'),
      `heat-bridge/deployments/inline-sls.test.ts: SLS of \${opening} without an end is examined in linear time`,
      'heat-bridge/deployments/inline-sls.test.ts: code after an unclosed text is not examined',
      'heat-bridge/deployments/inline-sls.test.ts: calls that cannot return inputs are listed once, for any number of inputs',
      'heat-bridge/signals/transports.test.ts: a destination is a text of at most 8,192 characters, and a longer one is not examined',
      'heat-bridge/catalog.test.ts: parameters with too many values are refused before they are checked',
      'heat-bridge/enroll/user-data.test.ts: options and grains with too many values or characters are refused',
      'heat-bridge/run-returns.test.ts: a large return is written in steps, with the same text',
      'heat-bridge/run-returns.test.ts: an outcome with a large return is stored without returns, and never encoded with them',
      manyKeys('a list of names deletes keys in one call, and has a maximum length'),
      manyKeys('names without wildcards are looked up, whatever the number of keys'),
      manyKeys('many globs are compared with many keys in several slices'),
      manyKeys('keys are listed, hashed and deleted with pauses'),
      manyKeys('a map with many ids deletes the keys of a state in one call'),
      largeResults('manage.versions groups the minions of a large fleet'),
      largeResults('manage.present looks the names of a subset up, and does not search them'),
      largeResults('survey writes a large result as text in several slices'),
      largeResults('text that is written in slices equals the text of Python'),
      largeResults('survey.diff compares a limited number of lines, and reads no further ones'),
      largeResults('data of many minions is unpacked with pauses'),
      largeResults('the documentation of many minions is merged with pauses'),
      largeResults('jobs.active lists a limited number of jobs of each minion, by jid'),
      largeResults('jobs.active reads no returns, and trusts no minion about the jobs of others'),
      largeResults('values of events are measured only until they are too large'),
      oddArguments(
        'the quantity of a queue may be any value, and is refused if it is not a number',
      ),
      oddArguments('metadata with large integers or maps is compared with the metadata of a job'),
      oddArguments('a value that is too large for a queue or bank is not packed to its end'),
      oddArguments('a value is packed if its packed form has the maximum size'),
      oddArguments('sdb takes addresses and characters of a limited length'),
      httpQuery('only listed hosts get requests, like in Salt, within limits'),
      'salt-api/server.long.test.ts: a denied or impossible request leaves no key behind',
      'master/orchestrate/orchestrate.long.test.ts: an event whose id is a map does not end salt.wait_for_event',
    ],
  },
  {
    id: 'H-477',
    threat: 'a text of an event is a pattern, a compound target or a function in a reactor file',
    tests: [
      reactor('text of an event is never a pattern'),
      reactor(`text of an event is neither a pattern nor a function of a runner: \${call}`),
      'master/reactor/argument-roles.test.ts: each argument of a runner or wheel function has a role in reactor files',
    ],
  },
  {
    id: 'H-481',
    threat: 'a stranger, another site or a false centre takes part in the link of a site',
    tests: [
      siteLink('a stranger with another key, and the key of another site, are refused'),
      'edge/entries.long.test.ts: an event of a site carries the name of the site, whatever its data contain',
      siteLink('a recorded handshake cannot be repeated'),
      siteLink('a handshake that claims a binding to TLS is refused on a connection without TLS'),
      siteVectors('a site refuses a centre with another key'),
      siteVectors('signatures of another TLS connection are refused by both sides'),
      siteVectors('a changed bit of the hello or the challenge invalidates the signatures'),
      'edge/tls-binding.test.ts: a recorded hello is refused on another TLS connection, also if it resumes the session',
      'edge/tls-binding.test.ts: a hello that is bound to a connection with TLS 1.2 is refused',
      earlyAlarms(
        'the centre applies an alarm of the hello when it accepts the site, and none of a stranger',
      ),
      earlyAlarms('an early request of another kind, or sealed to another key, is refused'),
      earlyAlarms('a site sends an alarm with its hello, and only its centre can read it'),
      earlyAlarms(
        'a request instead of the choice ends the connection, and a revoked site cannot choose',
      ),
      'edge/revoked.long.test.ts: entries and orders of a revoked site do not remain usable, and it can join again without them',
      'edge/revoked.long.test.ts: undelivered signals of a revoked site are dead letters',
      'edge/order-limits.test.ts: orders of a revoked site end, and give their places back',
      'edge/order-limits.test.ts: an order for a site that is revoked meanwhile does not wait',
      outbox('discarded signals of a minion are dead letters, also those that wait for delivery'),
      `edge/open-requests.test.ts: a site that is revoked during the handshake is not connected (\${step})`,
    ],
  },
  {
    id: 'H-482',
    threat: 'a ticket of a site is used twice or by another, or a revoked site stays connected',
    tests: [
      siteJoin('a ticket is used once, by one key'),
      siteJoin(
        'expired, altered and superseded tickets, and keys without their proof, are refused',
      ),
      siteJoin('a site refuses the centre of another ticket'),
      siteJoin('a revocation ends the connection, and the site is refused afterwards'),
      'edge/entries.long.test.ts: entries from before a revocation are marked if the site joins again before their deletion',
      earlyAlarms(
        'a request instead of the choice ends the connection, and a revoked site cannot choose',
      ),
    ],
  },
  {
    id: 'H-483',
    threat: 'a stranger or a site exhausts the centre over the link',
    tests: [
      'edge/entries.long.test.ts: a site that alternates between logs, or skips numbers, has at most 10,000 entries',
      'edge/entries.long.test.ts: the stored entries of a site have a maximum size, however small their batches are',
      'edge/entries.long.test.ts: an entry is accepted only in the classes of its kind, so that turns are kept',
      'edge/entries.long.test.ts: an entry of an unknown kind is refused, not silently dropped',
      'edge/entries.long.test.ts: large values of a small batch are decoded, published and listed with pauses',
      'edge/entries.long.test.ts: the entries of a batch with many elements are applied in parts, and none is lost',
      'edge/entries.long.test.ts: the centre stores the bytes of a value as the site has sent them',
      'edge/entries.long.test.ts: the rows of a batch are encoded with pauses',
      'edge/entries.long.test.ts: the reply to a batch states how many entries were refused beyond those that it lists',
      'edge/entries.long.test.ts: refused and missing entries of a site are logged once a minute',
      'edge/bundles/metadata.long.test.ts: metadata are compressed in another thread, and once for sites that ask at the same time',
      'edge/centre-facts.test.ts: the facts of a site have a maximum size',
      'edge/centre-facts.test.ts: the values in grains count towards the size of the facts, and have a maximum number',
      'edge/centre-facts.test.ts: the facts of a minion stay in memory as bytes, not as values',
      'edge/centre-facts.test.ts: facts are read and decoded one by one when they are listed',
      siteLink('large, malformed and early messages end a handshake'),
      siteLink('an address with too many refused handshakes is rejected unread, and may not join'),
      siteLink('an address may have 128 handshakes at a time, and one more when one ends'),
      'edge/shared-address.long.test.ts: strangers of a few addresses leave places for handshakes of other addresses',
      'edge/shared-address.long.test.ts: a known site gets a place if strangers hold all places of its address',
      'edge/shared-address.long.test.ts: a known site may connect if strangers of its address were refused too often',
      siteLink('malformed and too large frames of a site end its connection'),
      earlyAlarms('a hello with a larger early request ends the handshake'),
      siteLink('a site with too many open requests loses its connection'),
      openRequests(
        'the open requests of a site are counted over all its connections, until they are handled',
      ),
      openRequests(
        'requests in handshakes count as open, also if the site chooses none of the connections',
      ),
      openRequests(
        'a message of a stranger in many fragments ends the connection before it is complete',
      ),
      openRequests(
        'a frame of a stranger that arrives in many parts ends the connection before it is complete',
      ),
      siteLink('a site that floods heartbeats loses its connection'),
      'edge/link-order.test.ts: a request is open until its reply is sent, and a side that reads no replies is disconnected',
      'edge/link-order.test.ts: replies that are not read have a maximum size',
      'edge/link-order.test.ts: heartbeats of a side that does not read have one answer',
      siteLink('returns and facts are refused without a turn, and sites have turns in order'),
      siteLog('malformed batches are refused'),
      siteJoin('a repeated request of the same site is answered again'),
      siteJoin('a repeated request of the same site writes nothing'),
      bundlePacks('requests with unknown ids compute the places of packs once'),
    ],
  },
  {
    id: 'H-484',
    threat: 'a site writes for another site, twice, or with gaps',
    tests: [
      'edge/bundles/keys.test.ts: the centre stores only valid keys of minions that the site may own',
      'edge/bundles/keys.test.ts: many claims of one site do not hide those of another',
      'edge/centre-facts.test.ts: a site does not learn whether the centre or another site has a minion',
      'edge/centre-facts.test.ts: facts that are refused do not claim a minion',
      'edge/centre-facts.test.ts: signals that are refused do not claim a minion',
      'edge/entries.long.test.ts: a return about a minion of another site is refused',
      'edge/enrolling.long.test.ts: a site cannot act for a machine that the centre enrols',
      'edge/enrolling.long.test.ts: a signal that a site sent before an enrolment does not count for its machine',
      siteUp('a site cannot act for a minion of another site or of the centre'),
      siteLink('a repeated batch is acknowledged and applied once, and a gap is refused'),
      earlyAlarms(
        'the centre applies an alarm once that arrives over three connections, and the chosen one stays',
      ),
    ],
  },
  {
    id: 'H-485',
    threat: 'the clock of a site moves the clock of the centre',
    tests: [
      siteLink('facts with times far ahead are refused, and do not move the clock of the centre'),
      'edge/hlc.test.ts: a received time is followed by a later one, unless it is too far ahead',
    ],
  },
  {
    id: 'H-486',
    threat:
      'the log of a site fills the disk, loses alarms before facts, loses returns in a crash, or loses returns and facts because of the signals or events of another minion',
    tests: [
      'edge/lost-returns.long.test.ts: a return that was stored before a crash is in the log of the site after the next start',
      'edge/lost-returns.long.test.ts: the log has each stored return once after ten crashes',
      siteLog('a full log drops the oldest entries of the last class, and a marker states them'),
      siteLog('alarms are dropped only if nothing else is left'),
      siteLog('the returns of one minion leave space in the log for those of others'),
      siteLog('signals and events of one minion do not displace the returns and facts of others'),
      siteLog('entries of minions with equal parts of a full log are dropped by class'),
      siteLog('a write reads few rows of the log to drop the entries of one minion'),
      siteLog('each entry that a minion causes counts towards its part of the log'),
      siteLog('facts count towards the minion that has sent them'),
      siteLog('the outcome of an approved plan counts towards the minion whose signal starts it'),
    ],
  },
  {
    id: 'H-487',
    threat:
      "a shared pillar gives a minion the values or rights of another, or a minion's grains affect others",
    tests: [
      sharing('a shared pillar is equal to one that is rendered for the minion'),
      shared('a result of a function that is compared is not shared'),
      shared('text of a macro that prints the id can be read, and is not shared'),
      shared('a key with the id is not shared'),
      shared('the options of a template contain the id, and are not shared as a whole'),
      shared('a number in a plain scalar gets its own rendering'),
      shared('a comment in a value gets its own rendering'),
      shared('a part without grains that depends on the id is not shared'),
      shared('a target by id in the top file assigns SLS to one minion only'),
      shared('a minion with many grain values does not evict the shared pillar of others'),
      shared('a result above the limit of bytes of its minion is not held'),
      shared('the names of assigned SLS count towards the memory of a minion'),
      shared('minions do not keep an evicted assignment of another minion'),
      shared('grains of a minion have no effect on the shared pillar of others'),
      shared('a request does not wait long for the rendering of another minion'),
      shared('a request waits at most once for the renderings of another minion'),
      'master/pillar/master.long.test.ts: a service gets one request of a minion at a time, and a minion does not delay others',
    ],
  },
  {
    id: 'H-491',
    threat: 'the metadata of a bundle are altered, older, expired, or of another centre',
    tests: [
      bundleMetadata('refuses altered metadata'),
      bundleMetadata('refuses older metadata and mixtures of versions'),
      bundleMetadata('refuses the metadata of another centre'),
      bundleMetadata('refuses a root that too few of the former keys have signed'),
      bundleMetadata('refuses to publish targets without the signature of their key'),
      bundleMetadata('refuses a timestamp that an offline key has signed'),
      bundleMetadata(
        'refuses expired metadata, and accepts them after the centre has signed again',
      ),
    ],
  },
  {
    id: 'H-492',
    threat: 'the content of a bundle is altered, half, or larger than stated',
    tests: [
      bundlePacks('refuses parts and packs that do not match, and keeps the former bundle'),
      bundlePacks('reads a part again from its beginning if the bytes before a cut were altered'),
      bundlePacks('refuses contents that are altered, too short or too long'),
      bundlePacks('reads no more of a manifest than the metadata permit'),
      bundlePacks('refuses a damaged file of the former bundle'),
    ],
  },
  {
    id: 'H-493',
    threat: 'a bundle writes outside of its directory, or fills the disk',
    tests: [
      bundlePacks('refuses paths outside of the bundle'),
      bundlePacks('refuses links and special files in a source'),
      bundlePacks('refuses manifests that are malformed or exceed a bound'),
    ],
  },
  {
    id: 'H-494',
    threat: 'a bundle takes a site out of service, or opens it to its minions',
    tests: [
      bundleFiles('a new bundle gets one start of the master before its check'),
      bundleFiles('a bundle replaces only the options that a release may contain'),
      bundleFiles(
        'the file server serves the tree of a bundle, but not its pillar, keys and options',
      ),
    ],
  },
  {
    id: 'H-495',
    threat: 'a stranger reads packs, or a bad release reaches all sites',
    tests: [
      bundlePacks('makes a pack once for concurrent sites, and its id cannot be guessed'),
      bundleRings('stops when sites fail, and resumes'),
      bundleRings('does not give a release that has stopped to further sites'),
    ],
  },
  {
    id: 'H-496',
    threat:
      'orders without a right, not from the centre, or after the centre was away for too long',
    tests: [
      siteOrders("users need a rule at the centre, and are refused in the policy's own words"),
      siteOrders("a site refuses what its policy does not permit, in the policy's own words"),
      siteOrders('an order of another centre, for another site, or altered, is refused'),
      siteOrders('a job runs only on the minions for which its rights were checked'),
      siteOrders('users learn no names of sites for which they may not issue orders'),
      siteOrders('many globs on the names of many sites are matched with pauses'),
      'edge/facts-target.long.test.ts: a user without a right for a site learns nothing about its facts',
      'edge/facts-target.long.test.ts: facts that sites do not report, and targets that are invalid or too expensive, are refused',
      'edge/valid-offline.long.test.ts: a site that was away for longer than valid_offline does not start an order',
      'edge/valid-offline.long.test.ts: a release states valid_offline, and a site can only shorten it',
      'edge/valid-offline.long.test.ts: a former centre whose clock was ahead does not lengthen valid_offline',
      'edge/centre-time.test.ts: a site corrects the time of its centre when the centre and its own clock agree',
      'edge/centre-time.test.ts: a wrong clock of the site or of the centre alone does not set the time back',
      'edge/centre-time.test.ts: after a correction a site refuses orders of which it may have deleted the record',
      'edge/clock.long.test.ts: a site accepts orders again when the clock of its centre was a year ahead and is corrected',
      'edge/consistency.test.ts: EDGE-C11 and EDGE-C12: the authority ends with valid_offline, with any clock and any restarts',
    ],
  },
  {
    id: 'H-497',
    threat: 'a user without full rights reads the state of sites on the status page',
    tests: ['edge/status-page.test.ts: only users with full rights see sites, as with site list'],
  },
  {
    id: 'H-498',
    threat: 'a site gets another centre without the root keys of its centre',
    tests: [
      statements('a statement that too few root keys have signed is refused'),
      statements('an altered or malformed statement is refused'),
      statements('a statement of another centre is refused'),
      statements('a statement for other sites is refused'),
      statements('a statement that has expired, or is from the future, is refused'),
      statements('a statement that is not later than the accepted one is refused'),
      statements('a statement whose root is not that of the next centre is refused'),
      statements('the signatures of replaced root keys do not count any more'),
      rehoming('a thief of the online key of a centre cannot give its sites to another centre'),
      rehoming('a site does not try the next centre before the time of the statement'),
      rehoming('a stranger cannot release a site from its centre'),
      'edge/rehoming/replies.long.test.ts: a site that has joined again gets the statement that the former key has acknowledged',
      'edge/rehoming/replies.long.test.ts: a recorded notification does not release a site that has returned and holds a later statement',
      rehoming(
        'a former centre that was away during the change learns of the change when it is back',
      ),
      rehoming('the addresses and TLS options of a statement replace those of the configuration'),
      siteJoin('a site with a damaged identity does not use its ticket'),
      rehoming(
        'a site without a statement ignores another centre, and so does a site whose next centre has another key',
      ),
      rehoming(
        'a statement that replaced root keys have signed loses its force, and a new one has it',
      ),
    ],
  },
  {
    id: 'H-499',
    threat: 'a crash leaves a site with the key of one centre and the root of another',
    tests: [
      'edge/rehoming/crash.long.test.ts: a site has the former or the next identity after a crash at each step of the change',
      rehoming(
        'a site that was killed after the change of its identity connects to its next centre, and reports the change',
      ),
    ],
  },
  {
    id: 'H-500',
    threat: 'an import gives a name or a revoked site of a centre to another key',
    tests: [
      rehoming(
        'an import refuses names that the centre uses or has revoked, and repeats no import',
      ),
    ],
  },
  {
    id: 'H-501',
    threat:
      'the disk of a stolen site, or a stranger, reveals the secrets of another site, or a proxy reads them or restores former ones',
    tests: [
      'edge/secrets.long.test.ts: a proxy cannot read the secrets of a site, and cannot replace its key',
      'edge/secrets.long.test.ts: each site gets its own secrets, and its disk contains none in clear and none of another site',
      'edge/secrets.long.test.ts: a site cannot read the secrets of another site, and a box opens only with its own key',
      'edge/secrets.long.test.ts: a site refuses secrets that its centre has not signed, and keeps the former ones',
      'edge/secrets.long.test.ts: a site keeps its secrets without the centre, and a change reaches it with site secrets',
    ],
  },
  {
    id: 'H-502',
    threat: 'a malicious site makes a report about all sites fail, or keeps the centre busy',
    tests: [
      'edge/status-page.test.ts: a site that reports a time beyond all dates spoils neither its page nor its inputs',
      'edge/inputs.long.test.ts: the numbers of one site cannot make the sums of all sites infinite',
      siteLink(
        'unknown messages and parameters of a wrong form are refused, and the connection stays',
      ),
      'edge/order-limits.test.ts: results of sites have limits, and are stored only in a final state',
      'edge/secrets.long.test.ts: a site that reads its secrets again and again is refused, and the others are not',
      'edge/facts-target.long.test.ts: the grains of a site of the largest size do not keep the centre busy',
    ],
  },
  {
    id: 'H-503',
    threat:
      'a renewal or another publication at the same moment replaces the metadata of a release by earlier ones',
    tests: [
      'edge/bundles/metadata.long.test.ts: metadata that are written at the same time never replace each other',
    ],
  },
  {
    id: 'H-504',
    threat: 'a site that was revoked keeps ids of minions, so that no other site can have them',
    tests: [
      siteLink('a revocation waits for the batches that are being applied'),
      siteLink(
        'a centre that ended during a revocation releases the minions of the site when it starts',
      ),
      clusterMembers('a batch that is applied while another member revokes the site is refused'),
    ],
  },
  {
    id: 'H-509',
    threat:
      'a long list of names in one request is split or copied in one step and delays all others',
    tests: [
      'master/mine/mine.test.ts: a query with long names of functions is refused before its text is split',
      'minion-protocol/payload.test.ts: a long map in a pillar request is read up to one entry above the maximum',
      'master/orchestrate/orchestrate.long.test.ts: long lists of SLS are refused before their names are resolved',
    ],
  },
  {
    id: 'H-508',
    threat: 'large loads of one minion, read before any rate limit, delay all others',
    tests: [
      largeLoads('a large reply is encrypted in slices, and a small reply does not wait for it'),
      loadReading('a long message is encrypted in slices, while its key encrypts others'),
      largeLoads(
        'a minion pays for the bytes of a load before it is decrypted, and for its elements before it is unpacked',
      ),
      largeLoads(
        'a load whose sender may not pass is not decrypted, and one with too many elements is not unpacked',
      ),
      largeLoads('a burst of loads passes, further loads wait, and too many are refused'),
      largeLoads('large loads of a minion wait because of their size, over all its connections'),
      largeLoads('unknown commands count towards the rate of requests'),
      largeLoads('a large return is unpacked in slices, and a small request does not wait for it'),
      largeLoads('a long text is unpacked in a slice of its own'),
      returns('a large return is encoded and written in two slices'),
      largeLoads(
        'four large returns are in memory at a time, a small one is stored meanwhile, and none is lost',
      ),
      largeLoads(
        'a minion has one slot for large loads, and its next load is not decrypted before it is free',
      ),
      largeLoads('a large load has no slot while it waits for its rate limit'),
      largeLoads('only large returns keep their slot until they are handled'),
      largeLoads('a large return that fails releases its slot'),
      largeLoads('a large load is refused if too many of its minion wait for a slot'),
      largeLoads('large loads of one address that wait for a slot have at most 1 GiB'),
      largeLoads(
        'a large load that has waited for a slot for over a minute is neither decrypted nor counted as expired',
      ),
      'minion-protocol/payload.test.ts: values after a large text do not double the memory of the packed value',
      'master/keys/rsa-pool.test.ts: a message to a thread contains a token, but not the request around it',
      loadReading(`a large value is read in slices: \${title}`),
      largeLoads('many expired requests of a minion block only its requests from their address'),
      largeLoads('an expired request costs its address and not the minion'),
      largeLoads('in protocol 2, the sender of a load is its address until its token is known'),
      largeLoads('a load that no handler reads is not unpacked'),
      largeLoads('a request may have as many elements as its type permits'),
      largeLoads(
        'a return of 130,000 elements is stored, and an event of so many is refused and logged',
      ),
      loadReading('a head is refused if the load has too many fields, and long fields become null'),
      loadReading('reading a head stops at the limit of elements'),
      loadReading('a constant has few elements'),
      largeLoads('an update of the mine with too many functions is refused'),
      largeLoads('the encrypted load of an envelope is not copied, even if it is text'),
      loadReading('a long message is verified and decrypted in slices'),
    ],
  },
  {
    id: 'H-513',
    threat: 'the stored records of decisions reveal data of minions, also of other minions',
    tests: [stolen('an attacker writes only under its own id, and fires only permitted events')],
  },
  {
    id: 'H-507',
    threat:
      'the contents of a release are lost with a member of the centre, or altered in its store',
    tests: [
      clusterMembers('a member refuses a shared content that does not match its digest'),
      clusterMembers(
        'a member deletes no contents of a release that another member adds meanwhile',
      ),
      clusterMembers('a member creates a pack that a site has begun to read from another member'),
      clusterCentre(
        'a site gets a release from the other members after the publishing member was lost',
      ),
    ],
  },
  {
    id: 'H-506',
    threat:
      'members of a centre apply the entries of a site twice, or overwrite the rows of others',
    tests: [
      clusterMembers('a batch that two members receive is stored once'),
      clusterMembers('only one of two sites at different members gets the id of a minion'),
      clusterMembers('a member merges facts with those that another member has stored'),
      clusterMembers('a release counts the failures that several members receive'),
      clusterMembers(
        'another member advances a release whose last report arrived at a member that died',
      ),
      clusterMembers(
        'a member knows to which member a site is connected, until this member is gone',
      ),
      clusterMembers(
        'all members have the online key that the centre had before it became a cluster',
      ),
      clusterCentre('a site of one member is a site of all members'),
      siteOrders('orders that wait for the reply of a lost connection are sent over the next one'),
    ],
  },
  {
    id: 'H-514',
    threat:
      'a runner call that a user, a minion or a limited reaction has queued runs with all rights',
    tests: [
      'master/runners/served.long.test.ts: a queued runner that a user has inserted does not run with all rights',
      'master/runners/served.long.test.ts: a queued runner that cannot run is reported, and the others run',
      'master/reactor/reactor.long.test.ts: calls that reactions queue run with all rights only if the reaction has all rights',
    ],
  },
  {
    id: 'H-517',
    threat:
      'an orchestration with many states that refer to each other blocks the main thread of the master',
    tests: [
      'master/orchestrate/many-states.test.ts: requisites find their states without a search through all of them',
      'master/orchestrate/many-states.test.ts: states that listen to each other are found without a search through all of them',
      'master/orchestrate/many-states.test.ts: each item of a list in require_in adds one requisite',
      'master/orchestrate/many-states.test.ts: names in require_in and extend are found without a search through all states',
    ],
  },
  {
    id: 'H-516',
    threat: 'a user or reaction with the right to manage.down deletes keys of minions',
    tests: [
      'salt-api/clients.long.test.ts: manage.down removes only keys that the user may delete',
      'master/reactions/reactions.long.test.ts: a reaction removes keys by manage.down only if it may delete them',
      'master/runners/large-results.test.ts: the audit log attributes keys that manage.down deletes to the user',
    ],
  },
  {
    id: 'H-515',
    threat:
      'a minion or user blocks the main thread with functions of templates or with lists to join',
    tests: [
      pillarMerge('joining lists reads each value a bounded number of times'),
      pillarMerge('pillar= is merged in slices (lists)'),
      pillarMerge('pillar= is merged in slices (long texts)'),
      pillarMerge('users take turns when the pillar= of their orchestrations is merged'),
      pillarRequests('minions take turns when their pillar= is merged'),
      pillarRequests('a request is in progress until its pillar= is merged'),
      'master/rendering/functions.test.ts: slsutil.findup looks for at most 1,000 names',
      saltCmd('functions run on a thread, for the caller'),
      saltCmd('the size of the result of a function is limited'),
      saltCmd('a large result of a function is read in several slices'),
      saltCmd('a search for files reads the list of files once, and takes turns'),
      'master/rendering/event-printer.test.ts: the texts of an event are not searched for in files',
      'master/rendering/event-printer.test.ts: each search for a text is counted, and made once',
    ],
  },
  {
    id: 'H-505',
    threat: 'masters of one process share options of a release, and one affects the others',
    tests: [
      'master/config/parsed-texts.test.ts: readers of a text under the same name share it, and cannot change it',
      'acl/deferred-rules.test.ts: a rule that one dialect accepts is examined again in another',
      'acl/deferred-rules.test.ts: policies that share a rule use the facts and counts of their own masters',
    ],
  },
  {
    id: 'H-520',
    threat:
      'a user, a stranger or a project blocks the main thread with a text that is read in quadratic time',
    tests: [
      'security/linear-patterns.long.test.ts: every regular expression of the product takes linear time',
      'security/linear-patterns.long.test.ts: the analysis finds expressions that take quadratic or exponential time',
      'runtime/linear-texts.test.ts: the size of a batch may have percent signs at both ends only',
    ],
  },
  {
    id: 'H-521',
    threat: 'whoever can push to a repository of files blocks the master or fills its memory',
    tests: [
      'master/fileserver/gitfs.long.test.ts: a few directories with long names are refused if the paths below them are too long together',
      'master/fileserver/gitfs.long.test.ts: a directory with too many entries is refused before they are all read',
      'master/fileserver/gitfs.long.test.ts: a large directory is read in slices',
      'master/fileserver/gitfs.long.test.ts: the state of a large directory is stored in slices',
      'master/fileserver/gitfs.long.test.ts: names that are too long for a file system are not served',
      'master/fileserver/gitfs.long.test.ts: a directory is refused before it is read if its names are too long together',
      'master/fileserver/gitfs.long.test.ts: many branches and tags are read in slices',
      'master/fileserver/gitfs.long.test.ts: git does not build a large file from a small delta',
    ],
  },
  {
    id: 'H-522',
    threat:
      'an account of the host blocks the master with large requests to the port of local clients',
    tests: [
      'localclient/localclient.long.test.ts: in each turn of the event loop, one large request is read',
    ],
  },
  {
    id: 'H-523',
    threat: 'an instance that does not read its responses fills the memory of a metadata agent',
    tests: [
      'heat-bridge/guests/metadata-agent.long.test.ts: a response that a guest does not read counts towards its limit until the guest is gone',
    ],
  },
  {
    id: 'H-525',
    threat: 'a minion blocks the master with requests for lists of many large branches',
    tests: [
      'master/fileserver/file-server.long.test.ts: lists of branches that are not in the cache count for their minion before they are built',
      'master/fileserver/file-server.long.test.ts: packing and merging lists count for their minion before they are done',
      'master/fileserver/file-server.long.test.ts: the lists of a large branch are built and merged in slices',
      'master/requests/files.long.test.ts: the work for file lists counts towards file_bytes_per_second',
    ],
  },
  {
    id: 'H-526',
    threat: 'a tenant evicts the cached Keystone tokens of the handles of others',
    tests: [
      'heat-bridge/signals/outbox.test.ts: log-ins of one owner do not evict the token of another',
      'heat-bridge/signals/outbox.test.ts: the token of a HEAT_SIGNAL counts for the owner of its handle',
    ],
  },
  {
    id: 'H-527',
    threat: 'one enrolment that cannot be ended keeps expired keys of others valid',
    tests: [
      'heat-bridge/enroll/enrolment-deadlines.test.ts: an enrolment that cannot be ended does not keep the others from ending, and is logged',
    ],
  },
  {
    id: 'H-528',
    threat: 'a file that the configuration names blocks a check, or fills its memory',
    tests: [
      'server/check-config.test.ts: devices are not read as certificates or included files',
      'server/check-config.test.ts: a check does not wait for the writer of a pipe',
      'server/check-config.test.ts: a file of the configuration that is too large is not read',
    ],
  },
  {
    id: 'H-535',
    threat: 'a user keeps the rights of a group after leaving it, in a stream or batch',
    tests: [
      'master/eauth/changed-rights.test.ts: a stream stops sending what only a former group of its user may read',
      'master/eauth/changed-rights.test.ts: a batch stops if its user leaves the group that has the right',
    ],
  },
  {
    id: 'H-536',
    threat: 'a job is published after its user has lost the right, or the token was revoked',
    tests: [
      'master/eauth/changed-rights.test.ts: a job on a subset of minions is not published if a reload takes away its right',
      'master/eauth/changed-rights.test.ts: a batch publishes nothing after the token of its user was revoked',
    ],
  },
  {
    id: 'H-537',
    threat: 'requests that wait have an effect after the key of their minion was deleted',
    tests: [
      'master/keys/revocation.test.ts: a request that waits when the key of its minion is deleted has no effect',
      'master/keys/revocation.test.ts: a signal that waits when the key of its minion is deleted has no effect',
      'master/mine/mine.test.ts: an update of the mine has no effect if the key is deleted while its targets are checked',
    ],
  },
  {
    id: 'H-538',
    threat: 'a user makes the master ask all minions about one job without a pause',
    tests: [
      'master/jobs/question-times.test.ts: repeated questions about a job are at least a second apart',
      'master/jobs/question-times.test.ts: a very long timeout of a job does not end at once',
      'master/jobs/question-times.test.ts: a very long pause of a batch does not end at once',
    ],
  },
  {
    id: 'H-621',
    threat: 'a user with many streams of jobs delays the jobs of other users',
    tests: [
      'master/eauth/job-streams.test.ts: jobs of a user with many streams do not delay the job of another user',
    ],
  },
  {
    id: 'H-622',
    threat:
      'a user opens so many streams of jobs that they take up the memory and time of the master',
    tests: [
      'master/eauth/job-streams.test.ts: a user may have 256 open streams of jobs, and other users have their own',
    ],
  },
  {
    id: 'H-623',
    threat: 'jobs and runners that a minion requests start after its key was deleted',
    tests: [
      'master/peers/deleted-keys.test.ts: a job that a minion requests does not start if the key is deleted while the request waits',
      'master/peers/deleted-keys.test.ts: a job that the minion waits for does not start if the key is deleted while the request waits',
      'master/peers/deleted-keys.test.ts: a runner that a minion requests does not start if the key is deleted while the request waits',
      'master/peers/deleted-keys.test.ts: a runner of a minion starts no job after the key was deleted',
      'master/peers/deleted-keys.test.ts: a runner of an extension does not run if the key is deleted while its arguments are parsed',
    ],
  },
  {
    id: 'H-624',
    threat: 'a user keeps the rights of a group after leaving it, in a plan',
    tests: [
      'heat-bridge/changed-rights.test.ts: a plan runs no further step after its user has left the group with the right',
    ],
  },
  {
    id: 'H-625',
    threat: 'a job is published with rights that its user lost while the target was evaluated',
    tests: [
      'master/eauth/rights-during-targets.test.ts: a job is not published if the token of its user is revoked while its target is evaluated',
      'master/eauth/rights-during-targets.test.ts: a job is not published if a reload takes away its right while its target is evaluated',
    ],
  },
  {
    id: 'H-626',
    threat: 'a call with many names of keys stops all other work of the master',
    tests: [
      'master/keys/many-keys.test.ts: many names of keys are looked up and sorted with pauses',
    ],
  },
  {
    id: 'H-700',
    threat:
      'the account of a master puts links in its directories, and root follows them at the next start',
    tests: [
      'server/owned-files.test.ts: a link in a directory of the account does not make root create or open a file',
      'server/owned-files.test.ts: a link in a directory of the account does not make root create a directory',
      'server/owned-files.test.ts: a second name of a file does not make root open it',
    ],
  },
  {
    id: 'H-561',
    threat: 'a user or minion blocks the master with environments in which it looks for modules',
    tests: [
      'master/runners/synced-modules.test.ts: an environment is read once, however often a call names it',
      'master/runners/synced-modules.test.ts: a call may name 100 environments',
      'master/runners/synced-modules.test.ts: many files are searched in slices',
    ],
  },
  {
    id: 'H-562',
    threat:
      'a user or minion finds out pillar values of others with patterns in the targets of runners',
    tests: [
      'master/runners/pillar-targets.test.ts: patterns of users and minions match no pillar value in a runner',
      'master/runners/pillar-targets.test.ts: the job of a runner goes to the minions that the target of a user certainly means',
    ],
  },
  {
    id: 'H-563',
    threat: 'a user gets around a condition on an argument with a list of names',
    tests: [
      `acl/list-arguments.test.ts: a rule must permit each name in the argument \${name} of \${fun} (\${action})`,
      'acl/list-arguments.test.ts: a rule that denies a name denies each list that contains it',
      'acl/list-arguments.test.ts: a rule must permit each combination of names in two arguments',
      `acl/list-arguments.test.ts: a rule must permit each id in the lists of \${fun}`,
      'acl/list-arguments.test.ts: a list may have 1,000 names if a rule has conditions on arguments',
    ],
  },
  {
    id: 'H-564',
    threat: 'a user delays the pillars of minions by compiling pillars of invented minions',
    tests: [
      'master/pillar/shown-pillars.test.ts: a user compiles one pillar at a time, whatever minions the calls name',
      'master/pillar/shown-pillars.test.ts: calls beyond the waiting ones of a user are rejected',
    ],
  },
  {
    id: 'H-565',
    threat: 'a user blocks the master by having large file roots listed again',
    tests: [
      'master/fileserver/large-roots.test.ts: other work runs while the files of large roots are listed and sorted',
    ],
  },
  {
    id: 'H-580',
    threat: 'an LDAP server stops the master with small messages, or fills its memory',
    tests: [
      'master/eauth/ldap-answers.test.ts: an LDAP server that sends many entries at once fails the log-in',
      'master/eauth/ldap-answers.test.ts: an LDAP server that sends an endless message fails the log-in',
      'master/eauth/ldap-answers.test.ts: messages of LDAP are the same however they are divided into chunks',
      'master/eauth/ldap-answers.test.ts: an LDAP server may send a limited number of messages and elements in one connection',
      'master/eauth/ldap-answers.test.ts: bytes that are not messages of LDAP are rejected',
    ],
  },
  {
    id: 'H-581',
    threat: 'a service holds a delivery or a request of the master for ever',
    tests: [
      'heat-bridge/outgoing/exchange.test.ts: a server that switches to another protocol is unreachable',
      'heat-bridge/guests/coordinator-options.test.ts: a server that does not respond like etcd is skipped',
    ],
  },
  {
    id: 'H-582',
    threat: 'a tenant chooses the virtual host that a listed endpoint serves',
    tests: [
      'heat-bridge/outgoing/exchange.test.ts: a URL whose text names another host than its parsed form gets no request',
    ],
  },
  {
    id: 'H-583',
    threat: 'an identity provider blocks the master with many keys, or fills its memory',
    tests: ['master/eauth/logins.test.ts: keys of an identity provider are read up to a limit'],
  },
  {
    id: 'H-584',
    threat: 'a user whose name consists of digits logs in as the account with this number',
    tests: [
      'master/eauth/pam.test.ts: a name of digits is not taken for the number of another account',
    ],
  },
  {
    id: 'H-585',
    threat: 'a tenant or minion blocks the master with a text that is compared with a pattern',
    tests: [
      'acl/data-schema.test.ts: a text that is too long for the pattern of a schema does not match the schema',
      'acl/data-schema.test.ts: the texts of one value together have a limit, and the problem names it',
      'acl/data-schema.test.ts: the parameters of a command have no patterns that need backtracking',
    ],
  },
  {
    id: 'H-539',
    threat: 'the removal of the minions of a large data space takes quadratic time',
    tests: [
      'heat-bridge/guests/dismissals.test.ts: dismissing all minions of a large data space writes a linear number of bytes',
      'heat-bridge/guests/dismissals.test.ts: dismissed minions leave their data space for good, and the last one removes it',
      'heat-bridge/guests/dismissals.test.ts: a registration that a crash interrupts is not changed by earlier dismissals',
    ],
  },
  {
    id: 'H-540',
    threat:
      'several minions of a site together fill its log, so that returns of other minions, outcomes of orders and audit records are lost',
    tests: [
      siteLog('minions that fill the log together leave the reserves of others and of the site'),
      siteLog('the entries of the site itself leave the reserves of minions'),
      siteLog('the returns of a minion within its reserve are whole, whatever others have stored'),
      siteLog('a full log is searched once for minions that together exceed their reserves'),
    ],
  },
  {
    id: 'H-541',
    threat:
      'a statement that was signed while clocks were ahead makes sites refuse all statements about their next centre until its time of issue',
    tests: [
      'edge/rehoming/statement.test.ts: a statement that is an hour ahead gets no further signature, and is not published',
      'edge/rehoming/statement.test.ts: a statement that was signed while clocks were ahead does not prevent later ones',
      'edge/rehoming/wrong-clock.long.test.ts: a site accepts statements again when the clock of its centre was ahead and is corrected',
    ],
  },
  {
    id: 'H-542',
    threat: 'the entries of revoked sites remain on the disk of the centre',
    tests: [
      'edge/revoked.long.test.ts: entries and orders of a revoked site do not remain usable, and it can join again without them',
      'edge/revoked.long.test.ts: a centre that ended during a revocation deletes the entries of the site when it starts',
      'edge/entries.long.test.ts: the entries of a revoked site are deleted in several writes',
      'edge/ended-sites.test.ts: a revoked site is known as ended until its data are deleted',
      'edge/entries.long.test.ts: a deletion that ends before all entries are deleted leaves the correct number',
    ],
  },
  {
    id: 'H-713',
    threat: 'many accepted ids with one key make lists of keys quadratic',
    tests: [
      'master/keys/key-marks.test.ts: the marks of cloned machines name a few of the others, and count all',
    ],
  },
  {
    id: 'H-714',
    threat: 'a caller with the right for some keys uses a glob that matches others',
    tests: [
      'acl/list-arguments.test.ts: a rule permits a glob of keys only with everything that the glob matches',
      'acl/list-arguments.test.ts: a rule that denies keys denies each glob that can match them',
    ],
  },
  {
    id: 'H-715',
    threat: 'a caller passes a denied argument by position instead of by name',
    tests: [
      'acl/list-arguments.test.ts: a rule that denies an argument denies it by position and by name',
    ],
  },
  {
    id: 'H-716',
    threat: 'a caller meets the condition of a rule with an argument that the function ignores',
    tests: [
      'master/eauth/user-api.long.test.ts: a keyword argument that a function does not accept meets no condition',
    ],
  },
  {
    id: 'H-730',
    threat:
      'a server that switches to another protocol holds a request of a site or of a guest for ever',
    tests: [
      'edge/read-part.test.ts: a centre that switches to another protocol fails the request',
      'edge/read-part.test.ts: no bytes are lost if other code of the process listens to responses',
      'runtime/await-response.test.ts: a site that joins does not wait for a centre that switches to another protocol',
      'runtime/await-response.test.ts: the metadata agent does not wait for a service that switches to another protocol',
    ],
  },
  {
    id: 'H-731',
    threat:
      'a git remote lists branches without end, so that git uses up the memory of the machine',
    tests: [
      'master/fileserver/gitfs.long.test.ts: a remote that lists too many branches is refused',
    ],
  },
  {
    id: 'H-732',
    threat: 'a git remote makes the master send requests, or credentials, to other servers',
    tests: [
      'master/fileserver/gitfs.long.test.ts: a redirect of a remote is not followed, and the error says what to do',
    ],
  },
  {
    id: 'H-733',
    threat: 'a service answers http.query with nested JSON that exhausts the stack of the master',
    tests: [
      'master/runners/http.test.ts: only listed hosts get requests, like in Salt, within limits',
    ],
  },
  {
    id: 'H-734',
    threat: 'a server that the master asks gives an answer that no test has spoiled',
    tests: [
      'security/hostile-matrix.test.ts: each file that asks another server has a row in the matrix',
      'security/hostile-matrix.test.ts: hostile input to each entry of the tables causes bounded work, and the honest owner is served',
    ],
  },
  {
    id: 'H-735',
    threat: 'a user who may use some names reaches other minions with a list of names',
    tests: [
      'security/hostile-matrix.test.ts: hostile input to each entry of the tables causes bounded work, and the honest owner is served',
    ],
  },
  {
    id: 'H-736',
    threat: 'a server of ZooKeeper holds a request for ever with an invalid response',
    tests: [
      'heat-bridge/guests/coordinator-options.test.ts: a request fails if ZooKeeper responds with the number of another request',
      'heat-bridge/guests/coordinator-options.test.ts: no session is open if ZooKeeper sends an invalid message after it',
    ],
  },
  {
    id: 'H-717',
    threat: 'a request to enrol a machine is carried out although its right ended while it waited',
    tests: [
      lateRegistrations(`an HTTP request to \${what} is judged again before anything is stored`),
      lateRegistrations(`an HTTP request to \${what} watches its token until it ends`),
      'heat-bridge/late-registrations.test.ts: an enrolment that waits is refused if its owner may no longer enrol',
    ],
  },
  {
    id: 'H-718',
    threat: 'a deeply nested file exhausts the stack of the command line',
    tests: [
      'client/master-client.test.ts: arguments that are nested too deeply are refused before anything is sent',
    ],
  },
  {
    id: 'H-719',
    threat: 'a page of another site logs the browser of a user in as another user',
    tests: [
      'salt-api/login.long.test.ts: a page of another site that logs in gets a session, but no cookie',
    ],
  },
  {
    id: 'H-723',
    threat: 'a user of a backend has the rights of the account of this host with the same name',
    tests: [
      'acl/rules.test.ts: publisher_acl grants nothing to users of a backend with the name of an account',
    ],
  },
  {
    id: 'H-724',
    threat: 'keyword arguments in a list of arguments avoid the rules about keyword arguments',
    tests: [
      'master/runners/requester-jobs.test.ts: keyword arguments in the list of arguments are judged',
      'master/runners/requester-jobs.test.ts: pillar values in the list of arguments are checked for text that Salt interprets',
      'edge/order-rights.test.ts: the rules of a site apply to keyword arguments in the list of arguments',
    ],
  },
  {
    id: 'H-725',
    threat:
      'a call names an environment that its rule does not permit by position, or in an address of a file',
    tests: [
      'acl/environment.test.ts: a rule permits only the named environments, in whatever form a call names them',
      'acl/environment.test.ts: a rule denies calls that name its environment, or none',
    ],
  },
  {
    id: 'H-727',
    threat:
      'a service that the master asks answers with millions of brackets, whose parsing takes seconds',
    tests: [
      'runtime/try-parse-json.test.ts: JSON of at most 256 levels is parsed',
      'runtime/try-parse-json.test.ts: brackets in texts do not count as levels',
      'heat-bridge/guests/cloud-answers.test.ts: a nested response, and one that exceeds the size, are refused',
      'heat-bridge/guests/cloud-answers.test.ts: a large response is read in steps',
    ],
  },
  {
    id: 'H-728',
    threat:
      'a caller without rights learns which commands, plans and parameters exist, or has tokens validated without a limit',
    tests: [
      'heat-bridge/hidden-catalog.test.ts: a caller without rights does not learn which commands and parameters exist',
      'heat-bridge/hidden-catalog.test.ts: a caller without rights does not learn which plans and parameters exist',
      'heat-bridge/hidden-catalog.test.ts: a call over HTTP with an invalid token does not reach the bridge',
      'heat-bridge/keystone/keystone.long.test.ts: a call over /rpc with a Keystone token is refused, and Keystone is not asked',
    ],
  },
  {
    id: 'H-729',
    threat: 'a user extends a job with ever more names without a key, which no limit counts',
    tests: ['master/jobs/publication-log.test.ts: a slice adds no ids without a key to the job'],
  },
  {
    id: 'H-745',
    threat:
      'a rule with a rate denies requests that wait, because each check of their right counts',
    tests: [
      'acl/rules.test.ts: a repeated question neither counts towards a rate, nor is denied because of it',
      `heat-bridge/late-registrations.test.ts: an HTTP request to \${what} counts once towards the rate of its rule`,
      'heat-bridge/guests/data-space.long.test.ts: a read of a guest that waits counts once towards the rate of its rule',
    ],
  },
  {
    id: 'H-722',
    threat: 'a centre holds the request of a site to join with a reply that never ends',
    tests: [
      'runtime/await-response.test.ts: a site that joins does not wait for a centre whose reply never ends',
    ],
  },
  {
    id: 'H-720',
    threat: 'a list of many keys compares all accepted keys in one turn, so that nothing else runs',
    tests: [manyKeys('accepted keys are compared with pauses, and again after a change')],
  },
  {
    id: 'H-721',
    threat: 'a list of many keys after each change of a key sorts all keys again',
    tests: [
      'master/keys/sorted-map.test.ts: a change of a sorted map does not cause all keys to be sorted again',
      'master/keys/sorted-map.test.ts: a sorted map lists each present key once, in order',
    ],
  },
  {
    id: 'H-740',
    threat: 'a list of the signals of one handle reads and parses the dead letters of all owners',
    tests: [
      deadLetters(
        'a list of the signals of one handle reads no signal of another owner, and no data',
      ),
      deadLetters('a retry of the signals of one handle reads no signal of another owner'),
      deadLetters('a list of signals gives way after each large one'),
    ],
  },
  {
    id: 'H-741',
    threat: 'the guests of one owner fill the store with large dead letters',
    tests: [
      deadLetters(
        'large dead letters replace the oldest ones of their owner, or of the owner with most bytes',
      ),
      deadLetters('a store with too many bytes of dead letters loses some with each new one'),
    ],
  },
  {
    id: 'H-742',
    threat: 'expired handles for groups of one project slow down the signals of an alias',
    tests: [
      handleGroups('handles of other projects are not tested for the signal of a guest'),
      handleGroups('an expired handle is tested only if no valid one matches'),
      handleGroups("a new handle for groups removes its owner's expired ones with the same alias"),
    ],
  },
  {
    id: 'H-743',
    threat: 'a registration or list of handles examines many handles and minions in one turn',
    tests: [
      handleGroups('a registration of many minions gives way to other work'),
      handleGroups('a list of the handles of one owner does not convert those of others'),
    ],
  },
  {
    id: 'H-744',
    threat: 'each return of a guest sorts the names of all secret attributes of its role',
    tests: [
      'heat-bridge/guests/secret-returns.test.ts: the secret attributes of a role are collected once, and again if the roles change',
      'heat-bridge/guests/secret-returns.test.ts: the names of the attributes of one role have a limited length',
    ],
  },
  {
    id: 'H-750',
    threat: 'existing user-data of a machine is parsed in one long turn',
    tests: [
      callerWork('a message of very many parts is refused, and the text of a part is not parsed'),
      'heat-bridge/late-registrations.test.ts: the user-data of an enrolment is judged before the enrolment waits for its id',
    ],
  },
  {
    id: 'H-751',
    threat: 'an execution plan repeats a long parameter until the memory is exhausted',
    tests: [
      'heat-bridge/murano/waiting-plans.test.ts: an execution plan that repeats a long parameter very often is refused',
    ],
  },
  {
    id: 'H-752',
    threat: 'a data space lists so many minions or readers that one turn lasts long',
    tests: [guestData('a space has a limited number of minions, and of attributes of all roles')],
  },
  {
    id: 'H-753',
    threat: 'a large answer of the bridge is written in one long turn, or fills the memory',
    tests: [
      'heat-bridge/written-answers.test.ts: a large response is written in steps, with the same text',
      'heat-bridge/written-answers.test.ts: a list with large items is sent in small pieces',
      'heat-bridge/written-answers.test.ts: the bytes of large responses are counted until they are sent',
    ],
  },
  {
    id: 'H-754',
    threat: 'a guest that waits reads or writes a value although its rule has ended',
    tests: [
      guestData('a guest that waits is refused if its rule ends'),
      guestData(`the rule of a guest that waits is judged again over \${path}`),
      'master/peers/deleted-keys.test.ts: a runner of an extension that waits can find that the key was deleted',
    ],
  },
  {
    id: 'H-760',
    threat: 'an order of a job with a slot runs functions that the rules of the site do not permit',
    tests: [
      'edge/order-rights.test.ts: a site refuses a job whose arguments Salt would interpret',
      'edge/order-limits.test.ts: the centre rejects a job of a user whose arguments Salt would interpret',
    ],
  },
  {
    id: 'H-761',
    threat:
      'the result of an order is shown for another site, or has fields or a ticket of any size',
    tests: [
      'edge/order-limits.test.ts: results of sites have limits, and are stored only in a final state',
      'edge/order-limits.test.ts: a result has a ticket only if its order is an enrolment, and not a long one',
      'edge/order-limits.test.ts: a stored result cannot replace the name of its site',
    ],
  },
  {
    id: 'H-762',
    threat: 'an order is issued although the right of its user ended while it waited',
    tests: [
      'edge/late-orders.test.ts: an order that waits is judged again if its rights change',
      'edge/late-orders.test.ts: the token of an order is watched until the order is stored',
    ],
  },
  {
    id: 'H-763',
    threat: 'a request for the pillars of one site reads the reports of all sites',
    tests: [
      'edge/centre-inputs.test.ts: the report of one site is read without the reports of other sites',
    ],
  },
  {
    id: 'H-790',
    threat: 'a run whose target lists very many unknown names blocks the event loop',
    tests: [
      commands('a run whose target lists very many names without a key is refused'),
      'heat-bridge/run-returns.test.ts: an update of a run without readers creates no signal',
    ],
  },
  {
    id: 'H-791',
    threat:
      'a new machine reads the secrets of a run that was sent to the former machine with its id',
    tests: [
      'heat-bridge/run-secrets.test.ts: the secrets of a run leave the pillar of a minion whose key is deleted',
      'heat-bridge/run-secrets.test.ts: a run that waits shows its secrets only to minions whose keys have not ended',
    ],
  },
  {
    id: 'H-792',
    threat:
      'a new machine receives jobs of a run that was sent to the former machine with its id, or returns to it',
    tests: [
      'heat-bridge/not-sent-runs.test.ts: a minion whose key has ended gets no further job of a run, and returns nothing to it',
      'heat-bridge/run-secrets.test.ts: the secrets of a run leave the pillar of a minion whose key is deleted',
    ],
  },
  {
    id: 'H-793',
    threat: 'a run repeats its command although its caller has lost the right to it',
    tests: [
      'heat-bridge/not-sent-runs.test.ts: a run does not repeat a command that the rules no longer permit',
      'heat-bridge/changed-rights.test.ts: a command is not repeated after its user has left the group with the right',
    ],
  },
  {
    id: 'H-794',
    threat: 'a run continues after a restart on minions on which its caller has no right any more',
    tests: [
      'heat-bridge/changed-rights.test.ts: a run is continued only if the rules permit it on the minions that it was started on',
    ],
  },
  {
    id: 'H-795',
    threat: 'a run continues after a restart on a new machine that has the id of the former one',
    tests: [
      'heat-bridge/lost-keys.test.ts: the end of a key is known after a restart, for three days',
      'heat-bridge/lost-keys.test.ts: a run does not continue after a restart on a machine that has the id of another one now',
      'heat-bridge/lost-keys.test.ts: a run continues after a restart with the returns of minions whose keys ended later',
    ],
  },
  {
    id: 'H-796',
    threat: 'a later step of a plan runs on a new machine that has the id of the former one',
    tests: [
      'heat-bridge/lost-keys.test.ts: a plan runs no further step on a machine that has the id of another one now',
    ],
  },
  {
    id: 'H-797',
    threat: 'a run whose rights end while it waits is reported as a defect of the master',
    tests: [
      'heat-bridge/changed-rights.test.ts: a run that waits while its user loses the right ends with the denial, not an internal error',
    ],
  },
  {
    id: 'H-798',
    threat:
      'a user calls functions of a client that netapi_enable_clients disables, at an address that names no client',
    tests: [
      'salt-api/clients.long.test.ts: netapi_enable_clients applies to all addresses that call the functions of a client',
    ],
  },
  {
    id: 'H-799',
    threat:
      'a user with limited rights finds out values of the minions of a site with targets of orders',
    tests: [
      'edge/order-rights.test.ts: the target of an order examines only minions on which its user has rights',
    ],
  },
  {
    id: 'H-800',
    threat:
      'the jobs of the orders of one user use up the limits of the operator of a site, and are recorded for the operator',
    tests: [
      'edge/order-rights.test.ts: the job of an order counts and is recorded for its user, not for the operator',
    ],
  },
  {
    id: 'H-801',
    threat:
      'a rule with a rate denies what it permits, because a check or each part of one request counts',
    tests: [
      'edge/order-rights.test.ts: an order counts once towards the rate of its rule at the site',
      'acl/rules.test.ts: a query of the mine counts once towards a rate, for any number of minions',
      'heat-bridge/changed-rights.test.ts: each command of a plan counts once towards the rate of its rule',
      'heat-bridge/murano/execution-plans.long.test.ts: an execution plan counts once towards the rate of its rule',
      'heat-bridge/guests/data-space.long.test.ts: a pillar of a guest does not count towards the rate of its rule',
    ],
  },
  {
    id: 'H-802',
    threat:
      'a user reads over /rpc which minions and reviews the operator has noted in the catalog',
    tests: [
      'heat-bridge/hidden-catalog.test.ts: a user over /rpc sees the commands without their minions and reviews, as over HTTP',
    ],
  },
  {
    id: 'H-803',
    threat: 'a user has two shares of event streams, and shares one with users of other back ends',
    tests: [
      'heat-bridge/rpc-streams.test.ts: a user has one share of streams at the bridge and at other addresses of the API',
    ],
  },
  {
    id: 'H-804',
    threat: 'a guest writes a value over HTTPS that a rule denies when its minion writes it',
    tests: [
      'heat-bridge/guests/data-space.long.test.ts: the conditions of rules apply to the value that a guest writes over HTTPS',
    ],
  },
  {
    id: 'H-805',
    threat: 'the events of one user use up the share of the master in the quota of a reaction',
    tests: [
      'master/events/event-owners.test.ts: an event that a user fires counts for this user, over each interface',
    ],
  },
  {
    id: 'H-806',
    threat:
      'an export contains keys that exports omit, in the store copy of an unfinished export or backup',
    tests: [
      'master/cluster/store-transfer.test.ts: an export omits unfinished exports and backups at any depth of state_dir',
    ],
  },
  {
    id: 'H-764',
    threat: 'sign-ins of strangers with the id of a minion delay the sign-in of the minion',
    tests: [
      'master/requests/sign-in-lock.test.ts: a minion signs in while a stranger waits for an RSA task for its id',
      'master/requests/sign-in-lock.test.ts: a sign-in that waits is refused if its version is not permitted any more',
    ],
  },
  {
    id: 'H-780',
    threat: 'a client that reads no responses requests a large outcome of a run again and again',
    tests: [
      'heat-bridge/written-answers.test.ts: the bytes of an outcome are counted for each response that a client has not read',
    ],
  },
  {
    id: 'H-781',
    threat: 'a user requests large results over /rpc again and again, and does not read them',
    tests: [
      'salt-api/answer-bytes.test.ts: large results over /rpc count for the user until they are sent',
      'master/rpc/call-server.test.ts: the bytes of a large result are counted, and a result beyond the limit is refused',
    ],
  },
  {
    id: 'H-782',
    threat: 'clients keep streams and large results in memory because they do not read them',
    tests: [
      `master/rpc/call-server.test.ts: a client that does not read a \${name} is disconnected`,
      'runtime/limits.test.ts: a reader that receives nothing while a sender waits is disconnected',
    ],
  },
  {
    id: 'H-783',
    threat: 'readers that stop reading keep the returns of ended runs beyond their limit',
    tests: [
      'heat-bridge/run-returns.test.ts: a reader that stopped reading does not keep the returns that its run drops',
      'heat-bridge/run-returns.test.ts: ended runs hold a limited number of bytes of returns for each caller and in total',
    ],
  },
  {
    id: 'H-784',
    threat: 'a user opens any number of streams of runs over /rpc',
    tests: [
      'heat-bridge/rpc-streams.test.ts: each stream over /rpc is counted, except streams of jobs, which have their own limit',
    ],
  },
  {
    id: 'H-765',
    threat:
      'a minion opens all connections of a listener, so that no other minion can connect, or a stranger ends those of others',
    tests: [
      'runtime/limits.test.ts: a known address with all connections makes room for other addresses',
      'runtime/limits.test.ts: the unknown address with the most connections makes room for others',
      'runtime/limits.test.ts: the ranking returns an address with the most connections after any changes',
    ],
  },
  {
    id: 'H-766',
    threat:
      'a minion fills the memory for messages and subscriptions, so that the connections of others end',
    tests: [
      'runtime/limits.test.ts: a known address that holds most memory makes room for the messages of others',
    ],
  },
  {
    id: 'H-767',
    threat:
      'requests that get no reply, or replies that a minion does not read, fill the memory until their connections end',
    tests: [
      'minion-protocol/unanswered-requests.test.ts: unread replies of a minion count over its connections, and those of others do not',
      `minion-protocol/unanswered-requests.test.ts: a request without a reply is not kept in memory, with replies \${order}`,
    ],
  },
  {
    id: 'H-807',
    threat: 'a site that requests many packs of releases delays the updates of all other sites',
    tests: [
      bundlePacks(
        'a site that requests many packs delays neither those of other sites nor manifests',
      ),
    ],
  },
  {
    id: 'H-808',
    threat:
      'a site that has left its centre stays joined there, because its notification was confirmed before it was stored',
    tests: [
      'edge/rehoming/left.test.ts: a notification that arrives while the first is being stored is not confirmed before it',
      'edge/rehoming/left.test.ts: a stored reply that arrives before its write fails is kept',
    ],
  },
  {
    id: 'H-809',
    threat: 'replies that wait for the reply to a slow request fill the memory',
    tests: [
      'minion-protocol/unanswered-requests.test.ts: replies that wait for an earlier reply count as unread replies',
    ],
  },
  {
    id: 'H-810',
    threat: 'a minion takes the connections of other minions that share its address',
    tests: [
      'runtime/limits.test.ts: the user with the most connections of an address makes room, and other minions there do not',
    ],
  },
  {
    id: 'H-768',
    threat: 'a site causes writes of the centre with each handshake',
    tests: [
      'edge/hostile.long.test.ts: a site that connects again and again is refused, and the others are not',
    ],
  },
  {
    id: 'H-769',
    threat: 'requests with false tokens hold the slots of all minions while they are checked',
    tests: [
      'master/requests/replay.test.ts: a request gives its slot back while its token is checked',
    ],
  },
  {
    id: 'H-775',
    threat:
      'clients request the description of the API or status pages again and again, and do not read them',
    tests: [
      'salt-api/page-bytes.test.ts: a status page counts for its user until it is sent',
      'salt-api/openapi-memory.test.ts: all responses with the description of the API share its bytes',
    ],
  },
  {
    id: 'H-776',
    threat:
      'each new subscriber with zmq_filtering makes the master compute the topics of all stored publications',
    tests: [
      'minion-protocol/zeromq-replay.test.ts: the topics of a stored publication are computed once for all new subscribers',
      'minion-protocol/zeromq-replay.test.ts: a new subscriber receives a stored publication once, if one of its topics matches',
    ],
  },
  {
    id: 'H-770',
    threat: 'a site sends so many log entries that it displaces the events of everyone',
    tests: [
      'edge/entries.long.test.ts: alarms above the rate of their site wait, and none is lost',
      'edge/entries.long.test.ts: the bytes of alarms are counted after decompression',
      'edge/entries.long.test.ts: returns above the rate of their site wait in its turn',
      'edge/entries.long.test.ts: a revocation does not wait for the rate of the site',
      'edge/entries.long.test.ts: a batch that waits for the rate of its site is refused when the centre closes',
    ],
  },
  {
    id: 'H-771',
    threat: 'the events of one site use up the share of all in the quota of a reaction',
    tests: [
      'edge/hostile.long.test.ts: one site cannot use up the rate of a reaction',
      'master/reactions/reactions.long.test.ts: the runs of a site are counted for the site, also by the next process',
    ],
  },
  {
    id: 'H-772',
    threat: 'signals in a batch are accepted after their site was revoked',
    tests: [
      'edge/entries.long.test.ts: no entry of a batch is accepted after its site was revoked',
    ],
  },
  {
    id: 'H-773',
    threat: 'a site causes a write of the centre with each report about its release',
    tests: [
      'edge/bundles/rings.test.ts: a report that changes nothing is stored once in five minutes',
      'edge/bundles/rings.test.ts: a site that alternates between reports is refused, and the others are not',
      'edge/bundles/rings.test.ts: a repeated refusal counts again after an operator has resumed the release',
    ],
  },
  {
    id: 'H-774',
    threat: 'a site causes a write of the centre with each request to replace its key',
    tests: [
      'edge/hostile.long.test.ts: a site that renews its key again and again is refused, and the others are not',
      'edge/ended-sites.test.ts: a site that offers the same key again causes no write',
    ],
  },
  {
    id: 'H-746',
    threat:
      'a site makes the centre compare the files of two releases with each request, or compress many packs at once',
    tests: [
      bundlePacks('compares two releases once, however often sites ask for their packs'),
      bundlePacks('compresses few packs at a time'),
    ],
  },
  {
    id: 'H-747',
    threat: 'a site makes the centre decompress any number of batches that it then refuses',
    tests: [
      'edge/entries.long.test.ts: batches that cannot be decoded count towards the rate of their site',
    ],
  },
  {
    id: 'H-748',
    threat:
      'returns of jobs whose ids have a suffix do not reach the centre, and leave rows in the store of the site',
    tests: [
      siteLog('returns of jobs whose ids have a suffix are in the log, and leave no rows behind'),
    ],
  },
  {
    id: 'H-749',
    threat: 'a client that only has access to NATS makes the log ignore the entries of a member',
    tests: [clusterLog('a client of the log cannot make the log ignore an entry of a member')],
  },
  {
    id: 'H-755',
    threat: 'a site that has left its centre stays joined there, because the store failed once',
    tests: [
      'edge/rehoming/left.test.ts: a site that left while the store failed is released when it repeats its notification',
    ],
  },
  {
    id: 'H-756',
    threat: 'minions of a site that start at once end the reports about grains to the centre',
    tests: [siteLog('facts count towards the minion that has sent them')],
  },
  {
    id: 'H-757',
    threat: 'an export of a site loses the link to its release, or hidden files of the release',
    tests: [
      clusterOffline(
        'a master is copied into a new cluster as its first member, and out of it again',
      ),
    ],
  },
  {
    id: 'H-758',
    threat: 'a site makes the centre decode any number of list elements and map entries in frames',
    tests: [
      siteVectors('a frame has few elements, and the longest acknowledgement of a batch fits'),
    ],
  },
  {
    id: 'H-759',
    threat: 'a site makes the centre prepare updates to a release without end',
    tests: [
      'edge/bundles/update-rate.long.test.ts: a site that requests many updates gets them later, and no more with its reports',
    ],
  },
  {
    id: 'H-777',
    threat:
      'a minion sends a grain that a pillar template prints, and its YAML aliases block the master or fill its memory',
    tests: [
      'template/work-limits.test.ts: many aliases of YAML are resolved by one visit of the document',
      'template/work-limits.test.ts: aliases of YAML add a limited number of nodes and characters',
      'template/work-limits.test.ts: aliases of one node of YAML share its value',
      'master/rendering/renderer.long.test.ts: data from a thread share the values that aliases of YAML share',
      'master/pillar/provided.long.test.ts: a grain that multiplies with aliases gives the minion an error',
    ],
  },
  {
    id: 'H-778',
    threat: 'with ext_pillar_first, the grains of a minion give it rights',
    tests: [
      'master/pillar/proven.test.ts: files that read external pillar with ext_pillar_first do not make grains a right',
      'master/pillar/proven.test.ts: a cached pillar is used only with the same proven external pillar',
      'master/pillar/proven.test.ts: external pillar that does not depend on grains is compiled once',
    ],
  },
  {
    id: 'H-779',
    threat: 'a query of mine values that do not exist looks them up for all minions in one turn',
    tests: [
      'master/mine/work-limits.test.ts: a query of values that do not exist lets other work run',
    ],
  },
  {
    id: 'H-785',
    threat: 'the arguments of a job of a minion are split into millions of words in one turn',
    tests: [
      'master/peers/peer-call.test.ts: the arguments of several functions have a limited number of words',
    ],
  },
  {
    id: 'H-786',
    threat: 'a target in a template silently matches no minion',
    tests: [
      'master/pillar/provided.long.test.ts: a regular expression with lookaround does not silently match nothing',
    ],
  },
  {
    id: 'H-787',
    threat: 'a minion compares a very long name of an environment with the patterns of gitfs',
    tests: [
      'master/fileserver/file-server.long.test.ts: a name of an environment and a query have at most 4096 characters',
    ],
  },
  {
    id: 'H-788',
    threat:
      'a minion gets its pillar, or stores data under its id, after its key was deleted during a wait',
    tests: [
      'master/pillar/pillar-requests.test.ts: a minion whose key is deleted while its pillar is compiled gets no pillar',
      'master/fileserver/pushed-files.test.ts: a file is not stored if the key of its minion is deleted while the request waits',
    ],
  },
  {
    id: 'H-789',
    threat: 'a time in a pillar template silently differs from the time that Salt prints',
    tests: [
      'template/salt-filters.test.ts: times are printed in local time, without leading zeros after %-',
    ],
  },
  {
    id: 'H-811',
    threat:
      'a stranger offers two wrong keys for an id, and a cluster takes its minion out of runs and plans',
    tests: [
      'master/keys/revocation.test.ts: a denied key that replaces another denied one does not end the accepted key',
      'heat-bridge/lost-keys.test.ts: in a cluster, only the member that ends a key records the time',
    ],
  },
  {
    id: 'H-812',
    threat:
      'a template prints a text grain of a minion as YAML, which becomes half a million values that block the main thread',
    tests: [
      'master/pillar/provided.long.test.ts: a grain with too many values for a pillar file gives the minion an error',
      'master/pillar/provided.long.test.ts: a large pillar lets other work run while it is received and converted',
    ],
  },
  {
    id: 'H-813',
    threat: 'Keystone or etcd answers with a megabyte of lists, which is parsed in one turn',
    tests: [
      'runtime/json-answers.test.ts: a response is read in steps, and responses take turns',
      'runtime/json-answers.test.ts: a response with any JSON is read exactly',
      'runtime/json-answers.test.ts: a response that is not JSON, or nested too deeply, has no value',
    ],
  },
  {
    id: 'H-814',
    threat:
      'etcd sends a line of 16 MB in small parts, and each part costs time for the whole line',
    tests: [
      'heat-bridge/guests/coordinator-options.test.ts: a stream of etcd yields each line, however the line arrives',
      'heat-bridge/guests/coordinator-options.test.ts: a long line of etcd is searched once for its end',
    ],
  },
  {
    id: 'H-815',
    threat:
      'a stranger or a service sends a body in chunks of one byte, and the parser and all streams handle each of them',
    tests: [
      'runtime/http-limits.test.ts: a request body may have many parts, unless they are small',
      'runtime/http-limits.test.ts: the limit for small parts applies to each request of a connection',
      'runtime/http-limits.test.ts: small parts are joined, and reading pauses until the next turn',
      'runtime/http-limits.test.ts: joined parts are not larger than what the parser reads at once',
      'runtime/http-limits.test.ts: without a reader, a message fills its buffer, and no more',
      'runtime/http-limits.test.ts: a body that arrives after the response has the same limit',
      'runtime/http-limits.test.ts: the buffer of a slow reader stays small',
      'runtime/http-limits.test.ts: a request that nobody reads does not hide that its client disconnects',
      'runtime/http-limits.test.ts: bodies in parts of any size arrive unchanged',
      'runtime/http-limits.test.ts: a response body may have many parts, unless they are small',
    ],
  },
  {
    id: 'H-816',
    threat: 'a service sends interim responses without end instead of a response',
    tests: ['runtime/http-limits.test.ts: a server may send 16 interim responses, and no more'],
  },
  {
    id: 'H-817',
    threat: 'a guest sends thousands of requests to the metadata agent without reading a response',
    tests: [
      'runtime/http-limits.test.ts: the metadata agent limits the unanswered requests of a connection, and small parts',
    ],
  },
  {
    id: 'H-818',
    threat: 'a program reads a large external pillar, and all its other work waits',
    tests: ['master/pillar/master.long.test.ts: the response of a service is parsed in a thread'],
  },
  {
    id: 'H-819',
    threat: 'Heat is busy, and a signal at a temporary URL replaces one that Heat has not read',
    tests: [
      'heat-bridge/signals/transports.test.ts: an object of a wait condition is replaced when Heat has had 30 s to read it',
    ],
  },
  {
    id: 'H-820',
    threat:
      'a stranger sends thousands of requests that Node.js itself answers: without a host, or with an unknown expectation',
    tests: ['runtime/http-limits.test.ts: requests that Node.js itself answers end the connection'],
  },
  {
    id: 'H-821',
    threat:
      'a stranger opens many connections to the HTTP API or a metadata agent, and sends thousands of requests on each of them at once',
    tests: [
      'runtime/http-limits.test.ts: in one turn, a server reads few requests of an address, and others are served',
    ],
  },
  {
    id: 'H-822',
    threat:
      'a client that does not read its responses sends small parts, and the parser of Node.js ends the process',
    tests: [
      'runtime/http-limits.test.ts: a client that does not read its responses may send small parts',
    ],
  },
];

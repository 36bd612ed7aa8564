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
const apiWork = inFile('salt-api/work-limits.test.ts');
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
const peers = inFile('master/peers/peer-requests.test.ts');
const returns = inFile('master/jobs/returns.test.ts');
const reactions = inFile('master/reactions/reactions.test.ts');
const reactor = inFile('master/reactor/reactor.test.ts');
const eventText = inFile('master/reactor/reactor.test.ts');
const events = inFile('master/requests/events.test.ts');
const logins = inFile('master/eauth/logins.test.ts');
const signedReturns = inFile('master/requests/signed-returns.test.ts');
const users = inFile('master/eauth/user-api.test.ts');
const outgoing = inFile('security/secrets.test.ts');
const outbox = inFile('heat-bridge/signals/outbox.test.ts');
const held = inFile('heat-bridge/signals/outbox.test.ts');
const owners = inFile('heat-bridge/signals/outbox.test.ts');
const commands = inFile('heat-bridge/run.test.ts');
const bodyLimits = inFile('salt-api/body-limits.test.ts');
const parameters = inFile('heat-bridge/catalog.test.ts');
const targets = inFile('master/targeting/targeting.test.ts');
const plans = inFile('heat-bridge/plans/run.test.ts');
const projects = inFile('heat-bridge/keystone/keystone.test.ts');
const keystoneTokens = inFile('heat-bridge/keystone/keystone.test.ts');
const deployments = inFile('heat-bridge/deployments/deployments.test.ts');
const groups = inFile('heat-bridge/deployments/groups.test.ts');
const sdb = inFile('master/runners/sdb.test.ts');
const httpQuery = inFile('master/runners/http.test.ts');
const executionPlans = inFile('heat-bridge/murano/execution-plans.test.ts');
const waitingPlans = inFile('heat-bridge/murano/waiting-plans.test.ts');
const hooks = inFile('heat-bridge/cfn-init/hooks.test.ts');
const installs = inFile('heat-bridge/cfn-init/install.test.ts');
const metadata = inFile('heat-bridge/cfn-init/metadata.test.ts');
const nesting = inFile('heat-bridge/deployments/nesting.test.ts');
const stacks = inFile('heat-bridge/deployments/http.test.ts');
const guestData = inFile('heat-bridge/guests/data-space.test.ts');
const coordinatorOptions = inFile('heat-bridge/guests/coordinator-options.test.ts');
const authenticated = inFile('heat-bridge/guests/authenticated-coordinator.test.ts');
const guestPeers = inFile('heat-bridge/guests/peers.test.ts');
const vendordata = inFile('heat-bridge/guests/vendordata.test.ts');
const byIdentity = inFile('heat-bridge/guests/identity.test.ts');
const metadataAgent = inFile('heat-bridge/guests/metadata-agent.test.ts');
const networkListeners = inFile('heat-bridge/guests/network-listeners.test.ts');
const agentClaims = inFile('heat-bridge/guests/agent-claims.test.ts');
const notifications = inFile('heat-bridge/guests/notifications.test.ts');
const guestSpaces = inFile('heat-bridge/guests/data-routes.test.ts');
const guests = inFile('security/guests.test.ts');
const outward = inFile('heat-bridge/outgoing/exchange.test.ts');
const claims = inFile('heat-bridge/enroll/claims.test.ts');
const lives = inFile('heat-bridge/enroll/life.test.ts');
const resources = inFile('master/requests/events.test.ts');
const clusterLog = inFile('store/log.test.ts');
const clusterMasters = inFile('master/cluster/masters-as-one.test.ts');
const clusterOffline = inFile('master/cluster/offline-cluster.test.ts');
const clusterDuties = inFile('master/cluster/duties.test.ts');
const clusterSignals = inFile('heat-bridge/signals/cluster.test.ts');
const clusterOrchestrations = inFile('master/orchestrate/cluster.test.ts');
const clusterReactions = inFile('master/reactions/cluster.test.ts');
const clusterRuns = inFile('heat-bridge/cluster.test.ts');
const clusterDeployments = inFile('heat-bridge/deployments/server-worker.test.ts');
const clusterGuests = inFile('heat-bridge/guests/cluster.test.ts');
const clusterKeys = inFile('master/cluster/shared-keys.test.ts');
const directoryLock = inFile('store/directory-lock.test.ts');
const processIdentity = inFile('store/process-identity.test.ts');
const publicationLog = inFile('master/jobs/publication-log.test.ts');
const settledJobs = inFile('client/settled-jobs.test.ts');
const failOver = inFile('client/fail-over.test.ts');
const eventRing = inFile('master/events/event-ring.test.ts');
const sharedProcesses = inFile('shared-master/processes.long.test.ts');
const audit = inFile('master/audit/audit-log.test.ts');
const sessions = inFile('salt-api/login.test.ts');
const sharedSessions = inFile('salt-api/shared-sessions.test.ts');
const bodies = inFile('salt-api/bodies.test.ts');
const streams = inFile('salt-api/events.test.ts');
const apiServer = inFile('salt-api/server.test.ts');
const door = inFile('salt-api/login.test.ts');
const confidential = inFile('security/secrets.test.ts');
const localClients = inFile('localclient/localclient.test.ts');
const orchestrations = inFile('master/orchestrate/orchestrate.test.ts');
const tenants = inFile('master/config/options.test.ts');

const identityInTheDispatcher =
  'master/requests/replay.test.ts: no variant of somebody else is heard, and each is counted by its reason';
const shelf = inFile('master/pillar/cache.test.ts');
const redaction = 'security/secrets.test.ts: no secret is logged at level trace, for any request';
const ownFiles =
  'security/secrets.test.ts: files of a master are readable by its own user only, except for public keys';
const directoryUsers = inFile('master/eauth/ldap.test.ts');
const endedKeys = inFile('heat-bridge/enroll/life.test.ts');
const transitions = inFile('heat-bridge/enroll/claims.test.ts');
const newIds = inFile('master/requests/sign-in.test.ts');
const httpConnections = inFile('salt-api/connections.test.ts');
const runQuotas = inFile('heat-bridge/run.test.ts');
const largeEvents = inFile('salt-api/streams.test.ts');
const sendQueue = inFile('runtime/limits.test.ts');

export const catalogue: readonly Threat[] = [
  {
    id: 'C-01',
    threat: 'a MAC is compared in a time that tells, or after decryption',
    tests: [
      'minion-protocol/envelope.test.ts: every changed bit and every cut of a blob is noticed by its HMAC',
      'minion-protocol/envelope.test.ts: bad padding is detectable only for holders of the signing key',
    ],
    sentence: 'MACs, tokens and digests are compared by `timingSafeEqual`',
  },
  {
    id: 'C-02',
    threat: 'a pillar is fetched by somebody else',
    tests: [
      'master/requests/vectors.test.ts: a pillar is encrypted to the accepted key, whatever key is in the request',
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
      'master/requests/vectors.test.ts: a pillar is made from the verified id, the grains and the environments',
      data('a minion gets only its own pillar, whatever id and grains it claims'),
    ],
  },
  {
    id: 'C-06',
    threat: 'a forbidden function beside a permitted one',
    tests: [
      'acl/rules.test.ts: every function of a list must be permitted',
      'acl/rules.test.ts: expressions mean whole functions, and each of several must be permitted',
      users('each of several functions must be permitted'),
    ],
  },
  {
    id: 'C-07',
    threat: 'unsafe temporary files; YAML that builds objects',
    tests: ['master/jobs/returns.test.ts: aliases that multiply are text', ownFiles],
    sentence: 'There is no client for SSH',
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
      "cli/daemon.test.ts: a process that gives up root keeps none of root's groups, and cannot regain them",
    ],
    sentence: 'takes the groups of that account',
  },
  {
    id: 'C-10',
    threat: 'TLS peers are not verified on outgoing connections',
    tests: [
      outgoing('no password is sent to a directory with an invalid certificate'),
      outgoing('no password is sent to a Keystone with an invalid certificate'),
      'master/config/salt-shop.test.ts: a receiver has what its kind has, and a server of NATS a name',
      'master/eauth/logins.test.ts: symmetric algorithms, none, and keys over plain http are refused as options',
    ],
    sentence: 'The master connects only to services that its configuration names',
  },
  {
    id: 'C-11',
    threat: 'credentials in logs',
    tests: [
      redaction,
      users('neither passwords nor tokens come into the log'),
      'master/fileserver/gitfs.test.ts: no error and no answer shows the password in an address',
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
      logins('the same answer and the same steps of time for whatever is wrong'),
      logins('tokens of a back end that is no longer served are none'),
      'master/eauth/logins.test.ts: an algorithm that is not listed is refused, though the key would do',
    ],
  },
  {
    id: 'C-15',
    threat: 'a deleted minion goes on, or leaves something to the next of its name',
    tests: [
      identity('deleting a key takes effect at once, and its successor inherits nothing'),
      'master/keys/revocation.test.ts: a later owner of the id gets a key of its own',
      'minion-protocol/zeromq-deadlines.test.ts: disconnecting a minion ends its request connections',
    ],
  },
  {
    id: 'C-16',
    threat: 'a kind of client without rights',
    tests: [
      users('a user that external_auth does not name has no rights'),
      users('run and batch are judged before anything is published'),
    ],
  },
  {
    id: 'C-17',
    threat: 'the ssh client of the API',
    tests: [],
    sentence: 'There is no client for SSH',
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
      signIns(
        'ids of a crafted form are refused with a correct key too, signed from protocol 2 on',
      ),
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
      users('each call looks at the token'),
      sessions('no, malformed and unknown tokens are refused alike, wherever they stand'),
    ],
  },
  {
    id: 'C-23',
    threat: 'internal functions in the clear',
    tests: [
      strangers('only sign-ins and pings are processed without encryption'),
      'master/requests/events.test.ts: names of prototypes and of internal methods are unknown commands',
    ],
  },
  {
    id: 'C-24',
    threat: 'functions of the wheel leave their directories',
    tests: [
      `master/runners/runners.test.ts: \${what} finds and reads nothing`,
      'master/keys/key-store.test.ts: an invalid id touches no file',
    ],
  },
  {
    id: 'C-25',
    threat: 'an expired token',
    tests: [
      logins('a token ends when its time is over, the first time it is asked about'),
      logins('turning the clock back revives no token'),
      logins('a clock that goes past the end of a token ends it'),
      keystoneTokens('a token ends when it says so, whatever was answered before'),
    ],
  },
  {
    id: 'C-26',
    threat: 'wheel without rights',
    tests: [
      'acl/rules.test.ts: runners and wheel functions need entries of their own',
      users('runners and wheel functions go by their own rights'),
    ],
  },
  {
    id: 'C-27',
    threat: 'pillar is written through the API',
    tests: [
      `master/runners/runners.test.ts: \${what} finds and reads nothing`,
      orchestrations('a file outside file_roots is not an SLS, whatever its name'),
    ],
    sentence: 'no function writes configuration, pillar or file roots',
  },
  {
    id: 'C-28',
    threat: 'data are rendered as a template',
    tests: [
      'template/render.test.ts: values from outside are never read as templates',
      'template/render.test.ts: nothing of JavaScript can be reached',
      orchestrations('words of whoever may not do everything are values, however a file has them'),
    ],
  },
  { id: 'C-29', threat: 'data in a shell command', tests: [], sentence: 'starts no shell' },
  { id: 'C-30', threat: 'planted files on minions', tests: [], sentence: 'the minions’ side' },
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
      'master/keys/key-store.test.ts: serials rise over any number of kills at any write, and the key stays',
      'master/requests/vectors.test.ts: a reply is bound to its request, and made with a new IV each time',
    ],
  },
  {
    id: 'C-34',
    threat: 'a target that means nobody counts as permitted',
    tests: [
      peers('a rule for some minions does not let a job reach others'),
      peers('a rule that goes by grains reaches nobody by them alone'),
      users('no target reveals minions that the user may not reach, or their data'),
    ],
  },
  {
    id: 'C-35',
    threat: 'locked accounts go on',
    tests: [
      logins('a user who is gone loses the token for good within a minute'),
      'master/eauth/file.test.ts: a user who is removed from the file, or locked in it, can no longer log in',
      'master/eauth/ldap.test.ts: a user who is locked in the directory cannot log in, and loses their tokens',
      keystoneTokens('a run ends when Keystone revokes its token'),
    ],
  },
  {
    id: 'C-36',
    threat: 'malformed requests silence the master',
    tests: [
      strangers('a malformed sign-in fails only its own request'),
      'master/hostile.long.test.ts: requests mutated outside or inside get answers that Salt could give, are counted, and leave no memory behind',
    ],
  },
  {
    id: 'C-37',
    threat: 'files of one environment for another',
    tests: [
      'master/fileserver/file-server.test.ts: a path is read with the environment of its load',
      'master/fileserver/file-server.test.ts: a changed file has another hash at once',
    ],
  },
  {
    id: 'C-38',
    threat: 'predictable names of scripts',
    tests: [],
    sentence: 'There is no client for SSH',
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
      'master/fileserver/gitfs.test.ts: names that are no paths, links that lead out, submodules and .git are not served',
      'master/fileserver/gitfs.test.ts: ext, file and local paths are refused where protocols do not name them',
      'master/fileserver/gitfs.test.ts: hooks in the repository that is fetched into never run',
    ],
  },
  {
    id: 'C-41',
    threat: 'part of a pillar',
    tests: [
      'master/requests/vectors.test.ts: a pillar that cannot be made is an error in the reply, never part of a pillar',
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
      'master/requests/files.test.ts: nothing is taken from a minion while file_recv is off',
    ],
  },
  {
    id: 'C-45',
    threat: 'a certificate without its key',
    tests: [
      `minion-protocol/stream-transports.test.ts: \${stream}: clients without a certificate are refused if one is required`,
    ],
  },
  {
    id: 'C-46',
    threat: 'an event is taken for a job',
    tests: [
      reports('a minion cannot start anything on others, on the master, or for a relay'),
      reactions('a signal that no rule permits leads to nothing'),
      reactions('without a rule of its own a reaction is denied, and that is told once a burst'),
      reactions('a runner runs by the right of its reaction alone'),
      reactor(
        'an event that no rule permits is denied, and a file that the policy refuses is not rendered',
      ),
      reactor('a grant to one file does not extend to another'),
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
      'master/fileserver/gitfs.test.ts: names that are no paths, links that lead out, submodules and .git are not served',
      'master/fileserver/gitfs.test.ts: ext, file and local paths are refused where protocols do not name them',
      'master/fileserver/gitfs.test.ts: hooks in the repository that is fetched into never run',
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
      'master/requests/replay.test.ts: a minion that proved protocol 3 is not heard below it, also after a restart',
      'security/secrets.test.ts: these requests can be forged until an id has proved protocol 3, and the doctor names it',
    ],
  },
  {
    id: 'C-54',
    threat: 'YAML that runs code',
    tests: ['master/jobs/returns.test.ts: arguments are read as Salt reads them'],
  },
  {
    id: 'C-55',
    threat: 'noise fills the log; outdated parsers',
    tests: [events('a flood of tags that nobody permits is a few lines in the log')],
    sentence: 'docs/dependencies.md',
  },
  {
    id: 'N-01',
    threat: 'bytes that are not the protocol',
    tests: [
      strangers('both ports close a connection with another protocol at once'),
      'minion-protocol/frames.test.ts: 20,000 damaged streams end in events or one violation, within the limits',
      `minion-protocol/stream-transports.test.ts: \${stream}: a connection with another protocol is closed and counted`,
    ],
  },
  {
    id: 'N-02',
    threat: 'half-open and slow connections',
    tests: [
      'minion-protocol/zeromq-deadlines.test.ts: a message must be complete 30 seconds after its first byte',
      `minion-protocol/stream-transports.test.ts: \${stream}: a connection with an unfinished request is closed after 30 seconds`,
      'minion-protocol/zeromq-strangers.long.test.ts: with 900 silent connections, others are served',
    ],
  },
  {
    id: 'N-03',
    threat: 'lengths that promise gigabytes',
    tests: [
      'minion-protocol/zeromq-requests.test.ts: a request over the limit ends its connection, and the next connection is served',
      `minion-protocol/stream-transports.test.ts: \${stream}: a request over the limit is refused by its head`,
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
    ],
  },
  {
    id: 'N-05',
    threat: 'floods of sign-ins',
    tests: [
      signIns(
        'a flood from one address is refused without signatures, and nobody else waits for it',
      ),
    ],
  },
  {
    id: 'N-06',
    threat: 'the list of waiting keys is filled',
    tests: [
      signIns('pending keys are bounded, in all and for each address'),
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
      signIns('a pending key keeps its place; another one is denied and counted'),
      'master/keys/key-store.test.ts: a key is accepted by its fingerprint, and not by that of another',
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
      'master/requests/replay.test.ts: a request whose time stamp is off or odd is refused',
    ],
  },
  {
    id: 'N-13',
    threat: 'listening without a key',
    tests: [strangers('a listener without a key cannot read any part of a job')],
    sentence: 'sizes and times are visible',
  },
  {
    id: 'N-14',
    threat: 'subscribers that flood or do not read',
    tests: [
      'minion-protocol/zeromq-strangers.long.test.ts: a thousand topics are accepted, and one more is refused',
      'minion-protocol/zeromq-requests.test.ts: a subscriber over its limits is skipped, and does not delay others',
      `minion-protocol/stream-transports.test.ts: \${stream}: a subscriber that reads nothing is skipped, and does not delay others`,
    ],
  },
  {
    id: 'N-15',
    threat: 'listening as another minion',
    tests: [
      `master/presence/presence.test.ts: an announcement \${title} is not believed, and its connection stays`,
      'master/presence/presence.test.ts: an announcement of a key that is not accepted is not believed',
    ],
    sentence: 'The announcement of a minion over TCP',
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
      'minion-protocol/zeromq-requests.test.ts: answers are sent in the order of the requests, whichever is ready first',
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
      returns('fields of a return reach the event, but never in place of who and what it was'),
    ],
  },
  {
    id: 'M-04',
    threat: 'odd job ids, and self-made jobs in bulk',
    tests: [
      reports('a return is accepted once, and only from a minion that the job targets'),
      returns('self-made jobs are bounded by the hour'),
    ],
  },
  {
    id: 'M-05',
    threat: 'forged events in every shape',
    tests: [
      reports('a minion cannot fire a tag of others in any request form'),
      events(`no grant fires a tag of the master's from a \${name} event`),
      events('the master says who an event is from'),
      `master/decisions/learn.test.ts: \${JSON.stringify(tag)} is not to be had by learning`,
      'master/decisions/learn.test.ts: requests that no rule can permit are named and not learned',
    ],
  },
  {
    id: 'M-06',
    threat: 'jobs on others',
    tests: [
      reports('a minion cannot start anything on others, on the master, or for a relay'),
      peers('a rule for some minions does not let a job reach others'),
      'acl/rules.test.ts: publish functions are never published, whatever the rules say',
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
    sentence: 'no relay is served',
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
      'master/fileserver/file-server.test.ts: hidden directories are not served though they lie below a root',
    ],
  },
  {
    id: 'M-11',
    threat: 'mines of others',
    tests: [
      data('only its owner writes a mine, and a mine reveals no foreign pillar'),
      'master/mine/mine.test.ts: no pattern finds out what is in the pillar of another',
      'master/mine/mine.test.ts: a mine never grows beyond its bound, whatever is written at the same time',
    ],
  },
  {
    id: 'M-12',
    threat: 'expressions that explode',
    tests: [
      'master/mine/mine.test.ts: expressions that may not end are not run for minions',
      'minion-protocol/targeting/target.test.ts: a pattern that would make a backtracking matcher explode gets an answer',
    ],
  },
  {
    id: 'M-13',
    threat: 'files outside of the roots, and absurd numbers',
    tests: [
      data('only files below the file roots can be read'),
      'master/requests/files.test.ts: offsets that are none get no content',
      'master/requests/files.test.ts: a level of compression that gzip does not have is none',
    ],
  },
  {
    id: 'M-14',
    threat: 'pushed files without end, or elsewhere',
    tests: [
      data("a pushed file stays in the sender's folder and is never read again"),
      'master/fileserver/file-server.test.ts: all files of a minion together are bounded, small ones by the room they take',
      'master/fileserver/file-server.test.ts: links that lead out of the folder are not followed',
    ],
  },
  {
    id: 'M-15',
    threat: 'sizes and floods',
    tests: [
      events('events beyond the burst are dropped, counted, and nobody else is affected'),
      events('an event that is too large is trimmed, counted and listed'),
      returns('a return that is too large is counted, and the job says so in its place'),
      'master/requests/vectors.test.ts: grains that are too large are named in the pillar, and no provider sees them',
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
      'master/pillar/master.test.ts: deleting a key removes the pillar of its minion',
    ],
  },
  {
    id: 'M-18',
    threat: 'one key under two ids, one id on two machines',
    tests: ['master/doctor/doctor.test.ts: a machine was cloned with its key'],
    sentence: 'reported, not refused',
  },
  {
    id: 'M-19',
    threat: 'lines of the log, and what a terminal obeys',
    tests: [
      'security/secrets.test.ts: an id, tag, job id or command cannot write a line into the log',
      'cli/output.test.ts: control characters cannot reach the terminal',
      'cli/salt.test.ts: text from minions cannot control the terminal',
    ],
  },
  {
    id: 'M-20',
    threat: 'markup in returns',
    tests: [
      apiServer('every answer forbids what browsers could make of it'),
      'heat-bridge/guests/compile-template.test.ts: a picture in SVG has each role and value as text, whatever they are',
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
      'master/requests/events.test.ts: names of prototypes and of internal methods are unknown commands',
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
      'master/config/policy-rules.test.ts: without options nothing is permitted but reading the mine and pillar of any environment',
      peers('a minion publishes nothing while peer is not set'),
    ],
  },
  {
    id: 'G-06',
    threat: 'one bad request costs one request',
    tests: [
      'master/requests/events.test.ts: a request whose handler fails is answered with an empty text, and the next one is served',
      strangers('a malformed sign-in fails only its own request'),
    ],
  },
  {
    id: 'G-07',
    threat: 'everything has a bound and an owner',
    tests: [
      'master/pillar/cache.test.ts: while a pillar loops to its limit others get theirs',
      'master/pillar/cache.test.ts: while a file for the reactor loops to its limit other events are planned',
      'master/rendering/renderer.test.ts: a rendering that takes more memory than it may ends alone',
      shelf('records of ids without a key are gone after the start, and bounds hold'),
      'minion-protocol/zeromq-deadlines.test.ts: unfinished messages of a stranger are limited over all its connections',
      'runtime/limits.test.ts: an owner has so many under way and no more; others are not held up',
      'runtime/limits.test.ts: requests over the rate wait, up to a number, and the rest are refused at once',
      'minion-protocol/zeromq-requests.test.ts: the number of requests of all connections in progress is limited',
      logins('a source can have so many log-ins under way, and others log in meanwhile'),
    ],
  },
  {
    id: 'G-08',
    threat: 'nothing is evaluated',
    tests: [
      eventText(`an event cannot leave its place: \${place}`),
      eventText('functions, and what keys are told by, are no text of an event'),
      'master/pillar/provided.test.ts: a grain that looks like a template is text, in templates and in names of files',
      'minion-protocol/targeting/target.test.ts: nested repetition without lookaround takes linear time',
      'template/render.test.ts: nothing of JavaScript can be reached',
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
      'master/life-times.long.test.ts: folders that everybody may write to are refused',
    ],
  },
  {
    id: 'G-11',
    threat: 'a passphrase for the key',
    tests: [
      'master/keys/key-store.test.ts: a new key is encrypted with the passphrase, and opens with no other',
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
      shelf('neither the files of the store nor a backup hold a word of a pillar'),
      shelf('a record opens under no other seal key, and under no other id'),
    ],
    sentence: 'core dumps',
  },
  {
    id: 'G-13',
    threat: 'the local door',
    tests: [
      'master/rpc/server.test.ts: the socket is for the user of the master alone',
      'master/rpc/server.test.ts: parameters that are too large are refused before they are read',
    ],
  },
  {
    id: 'G-14',
    threat: 'rights of the process',
    tests: [
      'documents.test.ts: the unit hears the notifications of a process of its own, and keeps no core dumps',
    ],
    sentence: 'The systemd unit',
  },
  { id: 'G-15', threat: 'dependencies', tests: [], sentence: 'docs/dependencies.md' },
  {
    id: 'G-16',
    threat: 'clocks that jump',
    tests: [
      'master/requests/replay.test.ts: a mark lasts as long as its time stamp is good, not longer',
      'minion-protocol/payload.test.ts: a jid is never issued twice, even if the clock goes backwards',
      logins('turning the clock back revives no token'),
      logins('a clock that goes past the end of a token ends it'),
    ],
  },
  {
    id: 'G-17',
    threat: 'killed at any moment',
    tests: [
      'master/keys/key-store.test.ts: a killed process leaves whole keys, and only those accepted that it accepted',
    ],
  },
  {
    id: 'A-01',
    threat: 'no token, or none that holds, at every endpoint',
    tests: [
      logins('a malformed token is unknown'),
      users('each call looks at the token'),
      sessions('no, malformed and unknown tokens are refused alike, wherever they stand'),
      streams('tokens are accepted only where browsers can send them'),
    ],
  },
  {
    id: 'A-02',
    threat: 'sessions before a log-in',
    tests: [
      sessions('nothing but a log-in leaves a session'),
      sessions('whatever is wrong with a log-in, the answer is the same'),
    ],
  },
  {
    id: 'A-03',
    threat: 'identifiers that are kept over a log-in, or guessed',
    tests: [
      logins('a log-in gives a token of 256 bits that tells who it belongs to'),
      logins('two log-ins give two tokens'),
      logins('the store has the digest of a token, not the token or the password'),
    ],
  },
  {
    id: 'A-04',
    threat: 'log-ins in odd forms, in bulk, or to find out names',
    tests: [
      logins('the same answer and the same steps of time for whatever is wrong'),
      logins('a password that is not text is refused like a wrong one'),
      logins('five failures in a minute refuse that user from that source, and nobody else'),
      logins('attempts at the same time are no way around the limit'),
      logins('failures of many other users do not make those of one forgotten'),
      door('users log in from where api_acl lets them, by whatever door'),
      'heat-bridge/http.test.ts: a client that sends too many bad tokens waits, and no other client does',
    ],
  },
  {
    id: 'A-05',
    threat: 'tokens that outlive their user, their log-out or their time',
    tests: [
      logins('only those whom token_expire_user_override names choose how long a token lives'),
      logins('logout and revocation hold at once, and after a restart'),
      logins('a user who is gone loses the token for good within a minute'),
      users('a job that is followed ends with the token'),
    ],
  },
  {
    id: 'A-06',
    threat: 'kinds of client beyond the rights',
    tests: [
      users('a user may publish what external_auth grants, and nothing else'),
      users('run and batch are judged before anything is published'),
      users('runners and wheel functions go by their own rights'),
      'salt-api/clients.test.ts: unknown and missing clients are refused before anything is done',
    ],
  },
  {
    id: 'A-07',
    threat: 'fields that say who asks',
    tests: [
      users('a user with full rights keeps the target and fields of a request, and others do not'),
      users('runners and wheel functions go by their own rights'),
      orchestrations("nobody tells anything under a stranger's orchestration"),
    ],
  },
  {
    id: 'A-08',
    threat: 'a permitted function carries another',
    tests: [
      users('each of several functions must be permitted'),
      'acl/rules.test.ts: a function that runs any other is permitted by its name, and by no pattern',
    ],
  },
  {
    id: 'A-09',
    threat: 'patterns that mean more than was written',
    tests: [
      users('a user may publish what external_auth grants, and nothing else'),
      'acl/rules.test.ts: expressions mean ids and functions as a whole',
    ],
  },
  {
    id: 'A-10',
    threat: 'targets that mean more than is permitted',
    tests: [
      users('a target means the minions that the rules name, and nobody else'),
      users('a request of a restricted user goes by name to the minions that were authorised'),
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
    tests: [users('arguments are judged as the minion takes them')],
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
      'salt-api/login.test.ts: a hook needs the right to fire events, and its path must be a tag',
    ],
  },
  {
    id: 'A-15',
    threat: 'what browsers send',
    tests: [
      bodies('only listed origins may read answers'),
      sessions('a cookie is a session, but not for a page of another site'),
      streams('WebSocket requires a session, and a cookie is refused for pages of other sites'),
      door('on a loopback address, a name that is not this host is refused at every path'),
      door('names that are listed are heard, wherever it listens'),
      door('an address that authorized_ips does not list is answered nothing'),
    ],
  },
  {
    id: 'A-16',
    threat: 'parsers of HTTP',
    tests: [bodies('requests that can be read in two ways are refused, and end the connection')],
  },
  {
    id: 'A-17',
    threat: 'bodies that are bombs',
    tests: [
      bodies('bodies that say nothing, or too much, are refused'),
      bodies('compressed bodies are refused'),
    ],
  },
  {
    id: 'A-18',
    threat: 'streams and requests without end',
    tests: [
      streams('a log-in has at most 64 streams, and a closed one can be replaced'),
      sendQueue(
        'one largest message and so much more may wait for a reader, who is ended beyond that',
      ),
      bodies('a body that never ends holds nobody up'),
      'salt-api/login.test.ts: streams of the status page count as streams',
      'salt-api/floods.long.test.ts: a thousand concurrent log-ins are processed a few at a time, and do not delay others',
      'salt-api/floods.long.test.ts: three hundred readers that never read do not affect others',
      orchestrations('an orchestration has so many states, and there are so many at once'),
      orchestrations('requisites that form an endless cycle end the orchestration with an error'),
      orchestrations('each state of a cycle through prereq has a result'),
      orchestrations('an orchestration ends with its time'),
    ],
  },
  {
    id: 'A-19',
    threat: 'paths in addresses',
    tests: [
      'salt-api/server.test.ts: nothing else is reached by a static path, and what is missing is 404',
    ],
  },
  {
    id: 'A-20',
    threat: 'paths and configuration in privileged functions',
    tests: [`master/runners/runners.test.ts: \${what} finds and reads nothing`],
    sentence: 'no function writes configuration, pillar or file roots',
  },
  {
    id: 'A-21',
    threat: 'errors that talk',
    tests: [
      'salt-api/clients.test.ts: an unknown nodegroup is an unexpected error, as clients know it',
      sessions('whatever is wrong with a log-in, the answer is the same'),
    ],
  },
  {
    id: 'B-01',
    threat: 'enrolling as another',
    tests: [
      claims('a ticket is good for nothing but what it was made for'),
      claims('a ticket is good until its time, and once'),
      claims('a spent ticket stays so when its key is deleted, and when the store is put back'),
      claims('another key than the one that was claimed for is denied, and told'),
      lives(
        'a ticket as a grain lets in the key that is shown with it; a second key puts both out',
      ),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-02',
    threat: 'keys that outlive their purpose',
    tests: [
      lives(
        'a given pair is accepted before the machine is there, and its private half is kept nowhere',
      ),
      lives('an enrolment whose machine does not come in time expires, with its pending key'),
      lives('a key that ends with its machine is retired at that time'),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-03',
    threat: 'a false master or service',
    tests: [
      `heat-bridge/enroll/scripts.test.ts: \${client} shows the ticket to nobody but the bridge`,
      'heat-bridge/enroll/user-data.test.ts: the minion is told one id, its master, and by what it knows it',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-04',
    threat: 'signals that are changed or sent twice',
    tests: [
      outbox('the same request again adds nothing, also in the next process'),
      outbox('a minion that signals three times does so under one id'),
      outbox('a handle has one signal in flight, and they arrive in order'),
      'heat-bridge/signals/outbox.test.ts: no two of minion and member have one id',
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
        'the same key is the same run; with other parameters or another target it is a conflict',
      ),
      commands('a secret is in the pillar of its minions while the run goes on, and nowhere else'),
      'security/secrets.test.ts: a secret parameter appears only in the pillar of its minion',
      parameters(`parameters are refused: \${title}`),
      parameters('texts that a command line would read otherwise reach the minion as they are'),
      `heat-bridge/catalog.test.ts: a catalog refuses \${title}`,
      plans('one command that is not permitted refuses the whole, before anything is done'),
      plans('the return of a minion is checked like the input of a caller'),
      plans('a secret is told by nothing that a plan says or keeps'),
      `heat-bridge/plans/definition.test.ts: a plan is refused with \${title}`,
    ],
  },
  {
    id: 'B-07',
    threat: 'it was nobody',
    tests: [
      audit('records that were taken out or exchanged are missed, wherever they stood'),
      audit('a record that was written again with a hash of its own breaks the chain'),
      'client/interface.test.ts: over HTTPS what is done is audited as done by whom the token belongs to',
      audit(`an end that was \${what} while no master ran stays to be seen for ever`),
      users(
        'the audit log names who logged in, what they did and by which rule, and what was refused',
      ),
    ],
  },
  {
    id: 'B-08',
    threat: 'addresses that a machine chose',
    tests: [
      outward('a host that is not listed is not requested'),
      outward('another port or scheme of a listed host is not listed'),
      outward(`a listed name that leads to \${address} is not asked`),
      outward('the address that was checked is the one that is connected to'),
      outward('a redirection is an answer, and is not followed'),
      'heat-bridge/signals/outbox.test.ts: a catalog leads nowhere that is not listed',
      projects('the address of Keystone is asked where its section lists it, and nowhere else'),
    ],
  },
  {
    id: 'B-09',
    threat: 'addresses and credentials that leak',
    tests: [
      outbox('the token is in no answer, event, reason or row of the store'),
      'heat-bridge/outgoing/exchange.test.ts: whatever is given is read or refused, and a refusal repeats none of it',
      projects("the master's own tokens, ended or made up, are never shown to Keystone"),
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-10',
    threat: "one tenant sees what is the other's",
    tests: [
      tenants(`two tenants that share \${what} are refused with both names and files`),
      tenants('a folder that is shared by a link is found'),
      'master/tenants.test.ts: a request under the keys of one tenant is no request to the other',
      'master/tenants.test.ts: jobs, returns and events of one tenant are told and kept there alone',
      "heat-bridge/signals/master.test.ts: another's handle is as unknown as none, and cannot be replaced",
      'heat-bridge/signals/master.test.ts: no handle without a rule, for other minions than the rule names, or without a token',
      commands("another caller's key leads to nothing of the first's"),
      'heat-bridge/http.test.ts: a run may be begun now and read later, by whoever began it alone',
      'heat-bridge/http.test.ts: a plan may be begun now and read or cancelled later, by whoever began it alone',
      projects('an idempotency key is of the project that the token is for, and of no other'),
      projects('a project that no rule is about learns nothing of what there is to be called'),
      projects('a handle is of the project that the token is for; others know nothing of it'),
      projects('an enrolment is of the project that the token is for; others know nothing of it'),
      'acl/decide.test.ts: a name of another domain is another one, for projects and for users',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-11',
    threat: 'floods of signals',
    tests: [
      outbox('quotas of minion and stack leave room for the others'),
      outbox('a service that never answers delays no other'),
      'heat-bridge/signals/master.test.ts: more than may wait of one minion is left unanswered, so that it comes again',
    ],
    sentence: 'The bridge to orchestration services',
  },
  {
    id: 'B-12',
    threat: 'storms of enrolments',
    tests: [claims('no more enrolments are open than may be')],
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
      users('no target reveals minions that the user may not reach, or their data'),
      users('a target means the minions that the rules name, and nobody else'),
      users('the cost of a target does not depend on minions that the user may not reach'),
      'salt-api/login.test.ts: a target means what is granted of it, and none of that is what nobody may do',
      peers('a rule for some minions does not let a job reach others'),
    ],
  },
  {
    id: 'H-01b',
    threat: 'pillar is read by targets, letter by letter',
    tests: [
      users('pillar is asked for by equality, where a rule shows it'),
      targets('a target is evaluated over a reach, and of nobody else facts are looked up'),
      targets('a reach may show pillar, which is compared by equality'),
    ],
  },
  {
    id: 'H-01c',
    threat: 'targets of named commands and groups of plans tell of minions beyond the grant',
    tests: [
      commands(
        'a target means the minions that rules name for the command, and tells nothing of others',
      ),
      plans(
        'a group means the minions that rules name for its commands, and its size tells nothing of others',
      ),
    ],
  },
  {
    id: 'H-01d',
    threat: 'targets of the mine tell of its owners',
    tests: [
      'master/mine/mine.test.ts: a mine is not asked by pillar unless a rule shows it',
      'master/mine/mine.test.ts: a mine that may not be read is not looked up',
    ],
  },
  {
    id: 'H-01e',
    threat: 'the answer to a target tells which nodegroups there are, and what they are made of',
    tests: [
      users(
        'which nodegroups there are, a user that may not reach their minions does not find out',
      ),
      'salt-api/login.test.ts: a target means what is granted of it, and none of that is what nobody may do',
      commands(
        'a target means the minions that rules name for the command, and tells nothing of others',
      ),
      commands('a secret follows ids, and no grain'),
    ],
  },
  {
    id: 'H-05',
    threat: 'a minion comes by a secret parameter by what it says of itself',
    tests: [
      targets('secrets follow ids and values of pillar, which grains have no part in'),
      commands('a secret follows ids, and no grain'),
      plans('a secret of a step follows no grain'),
    ],
  },
  {
    id: 'H-06',
    threat: 'keywords hide from rules what a minion takes as arguments',
    tests: [
      'master/jobs/returns.test.ts: a keyword given twice is published once, with the value that is judged',
      `master/jobs/returns.test.ts: \${what} is refused, also among several functions`,
      users('arguments are judged as the minion takes them'),
      `salt-api/clients.test.ts: \${client} takes no keyword of Salt's own`,
    ],
  },
  {
    id: 'H-02a',
    threat: 'a minion holds the master by arguments of a function that it may not call',
    tests: [
      peers('arguments of a function that a minion may not call are not read'),
      peers('long arguments of a permitted function are read in a thread'),
    ],
  },
  {
    id: 'H-02b',
    threat: 'one request holds the event loop by YAML or a form that takes long to read',
    tests: [
      bodyLimits('whatever is sent before authentication, no step of reading is long'),
      bodyLimits('typed arguments of a command are read in a thread where they are long'),
      'salt-api/recorded.test.ts: no body makes the API fail, or read more in one step than it may',
    ],
  },
  {
    id: 'H-02c',
    threat: 'large bodies of whoever is not known',
    tests: [
      bodyLimits('a log-in has 8 KiB'),
      bodyLimits('a request without a token is limited to 1 MiB, or to the value of the option'),
      bodyLimits('bodies of an address that nobody is known for share a budget'),
    ],
  },
  {
    id: 'H-02d',
    threat: 'a body with very many values, or very deep',
    tests: [
      bodyLimits('a body has 100,000 values, or what the option says, however it is written'),
      'runtime/json.test.ts: values and levels are counted while a text is read',
      'runtime/json.test.ts: no step works on more than its bound, whatever the text',
    ],
  },
  {
    id: 'H-02e',
    threat: 'a large command holds the event loop after it was read: by its digest, or its answer',
    tests: [
      bodyLimits('no step is long of what follows a large command, and of its answer'),
      'runtime/json.test.ts: JSON that is written in steps is what the engine writes, no step beyond its bound',
      'runtime/json.test.ts: UTF-8 is decoded in steps, wherever its parts are cut',
    ],
  },
  {
    id: 'H-12c',
    threat: 'the catalog is shown to callers without any right, with its targets and reasons',
    tests: [
      'heat-bridge/http.test.ts: a caller sees of the catalog what a rule permits it, and not for which minions or why',
      'heat-bridge/http.test.ts: a caller sees the plans of whose commands a rule permits it each',
      'acl/decide.test.ts: a caller may call the commands that some rule permits and none denies outright',
    ],
  },
  {
    id: 'H-12p',
    threat: 'what objects inherit passes for a parameter that was not given',
    tests: [
      parameters('a parameter that was not given is not passed on, whatever its name'),
      parameters('a word that was not given is no other word, whatever its name'),
    ],
  },
  {
    id: 'H-12r',
    threat: "a service's answer that takes long to read",
    tests: [
      'heat-bridge/signals/outbox.test.ts: an answer of tags that never end is read in no time',
    ],
  },
  {
    id: 'H-13h',
    threat: "a tenant takes another one's alias, reads its signals, or uses up its room",
    tests: [
      owners(
        'two owners use the same alias for different minions, and each signal goes to its own',
      ),
      owners('no owner takes an alias of a minion that another one has, or replaces it'),
      owners('the signals of an earlier owner of an alias are not for the next one'),
      owners('handles of one owner leave room for those of others'),
      owners('signals for the handles of one owner leave room for those of others'),
      owners('a handle for groups takes the signals of who is in one of them, and of nobody else'),
      owners(
        'a handle that lists the minion comes before those for its groups, of which the first has it',
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
      held('a minion has no more signals held than held_per_minion, and others have their own'),
      held('signals without a handle leave most bytes of the outbox to those that have one'),
    ],
  },
  {
    id: 'H-28a',
    threat: 'a minion returns in the name of another, as for a resource of that id',
    tests: [
      resources(
        'a return for what the minion has not registered, or for another minion, is refused',
      ),
    ],
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
        'however a name is spelled, the user is called as the directory calls the account',
      ),
      directoryUsers(
        'an account with several names is called as its distinguished name says, or not let in',
      ),
    ],
  },
  {
    id: 'H-09b',
    threat: 'spellings of one name have failed log-ins of their own',
    tests: [logins('failures of one user are counted together, however the name is spelled')],
  },
  {
    id: 'H-12b',
    threat: 'the time of a failed log-in tells who is known',
    tests: [
      logins('a failure tells by its time neither who is known nor which back end is slow'),
      'master/eauth/file.test.ts: an unknown user takes as long as the one whose password takes longest',
    ],
  },
  {
    id: 'H-13a',
    threat: 'a few addresses hold all slots for log-ins',
    tests: [
      logins('addresses without end hold no slots of those that somebody has logged in from'),
    ],
  },
  {
    id: 'H-24',
    threat: 'an API that a program serves without a word goes over the network in the clear',
    tests: [
      apiServer('plain HTTP is served on loopback alone, unless a program says otherwise'),
      apiServer("without options it is served as the master's configuration says"),
    ],
  },
  {
    id: 'H-03',
    threat: 'a report or an end that comes in the middle of a claim',
    tests: [
      transitions(
        'however transitions of an id interleave, a key is accepted only while its enrolment goes on',
      ),
      transitions('a minion that signs in while deadlines are looked at goes on'),
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
      endedKeys('a key that an operator accepts after an enrolment ended survives a restart'),
    ],
  },
  {
    id: 'H-10a',
    threat: 'tickets that cost more to refuse than to make up',
    tests: [claims('tickets that an address shows in vain are bounded')],
  },
  {
    id: 'H-10b',
    threat: 'alarms that fill the audit log',
    tests: [claims('an alarm that is made again and again is one event and two records a minute')],
  },
  {
    id: 'H-12',
    threat: 'a service that asks for less than the operator does',
    tests: [
      'heat-bridge/enroll/claims.test.ts: a service may raise the lowest protocol of a machine, and not lower it',
    ],
  },
  {
    id: 'H-13',
    threat: 'names that look like ids',
    tests: [
      "acl/decide.test.ts: a name that could be another's id gives no right, and takes one away",
    ],
  },
  {
    id: 'H-14a',
    threat: 'ids that mean others, or look like them',
    tests: [
      newIds('an id that means others as a target, or looks like another one, is refused'),
      newIds(
        'an id that was accepted before goes on working, and is marked; one that waited is not accepted',
      ),
      newIds('ids that differ in case only, and ids with one key, are taken and marked'),
    ],
  },
  {
    id: 'H-14b',
    threat: 'pushed files without number',
    tests: [
      'master/fileserver/file-server.test.ts: files and folders of a minion are bounded in number',
      'master/fileserver/file-server.test.ts: folders whose file cannot be made count',
    ],
  },
  {
    id: 'H-14c',
    threat: 'pillar of another environment',
    tests: [
      'master/requests/vectors.test.ts: which environments of pillar minions may ask for can be ruled',
    ],
  },
  {
    id: 'H-15',
    threat: 'an operation on a denied key that reaches the accepted one',
    tests: [
      'master/runners/runners.test.ts: a map acts on the folder that it names, also where the id has a key in another',
      'master/runners/runners.test.ts: a map deletes or rejects the one that it names of two keys of one id',
    ],
  },
  {
    id: 'H-16',
    threat: 'a stranger who waits under an expected id',
    tests: [claims("a machine whose key is shown behind a stranger's waits until it has claimed")],
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
    ],
  },
  {
    id: 'H-08d',
    threat: 'TLS handshakes without end',
    tests: [
      httpConnections('TLS handshakes of one address are delayed, and refused if too many wait'),
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
      'heat-bridge/http.test.ts: a caller beyond the limit of followed runs is refused before anything is published',
    ],
  },
  {
    id: 'H-11b',
    threat: 'a caller that begins runs without end',
    tests: [
      runQuotas('a caller has so many runs at a time, and is told before anything is published'),
      runQuotas('a plan is a run of its caller, and its steps are not'),
    ],
  },
  {
    id: 'H-11c',
    threat: 'a caller whose runs push those of others out of what is remembered',
    tests: [runQuotas('runs of others that are over do not make those of a caller forgotten')],
  },
  {
    id: 'H-13r',
    threat: 'readers of events over the interface who read nothing',
    tests: [
      largeEvents(
        `over \${form}, who reads too slowly is told that events are missing, and is ended`,
      ),
    ],
  },
  {
    id: 'H-20',
    threat: 'large events that wait for many slow readers',
    tests: [
      sendQueue(
        'one largest message and so much more may wait for a reader, who is ended beyond that',
      ),
      sendQueue('a message queued for many readers counts once'),
      sendQueue('beyond what all readers may hold the slowest is ended, and the others go on'),
      sendQueue('a connection that holds too much by one begun message is ended at once'),
      largeEvents('events of 5 MB reach whoever reads, over every stream'),
    ],
  },
  {
    id: 'H-28',
    threat: 'whoever knows the shared key of old protocols returns for another minion',
    tests: [
      signedReturns('a return without a signature is refused where one is required'),
      signedReturns('a wrong signature is refused where it has to verify, and none is not'),
      signedReturns('the shared key of old protocols does not let a minion return for another'),
      signedReturns(
        `a return signed as minions do \${name} is taken, and refused when it was changed`,
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
      processIdentity('a process that only has the id of a former holder is not ended'),
      processIdentity('a holder of another PID namespace or another kernel is not ended'),
    ],
  },
  {
    id: 'H-42',
    threat: 'a command runs twice because the process that published it ended',
    tests: [
      settledJobs('a job that the next holder knows is not published again'),
      publicationLog('each publication is noted before it is sent'),
      publicationLog('nothing is known of a process that may go on, nor of one of another kernel'),
      sharedProcesses(
        'when the holder is killed another process takes over, and what was acknowledged is there',
      ),
    ],
  },
  {
    id: 'H-30a',
    threat: 'the author of a template permits code, a command or a minion',
    tests: [
      deployments(`a deployment with \${what} is refused, and Heat is told why`),
      deployments('a script that the catalog does not pin does not run'),
      deployments('a script gets no input that its entry does not name'),
      deployments('a minion that no rule permits is not reached'),
      installs('metadata that no entry pins is refused'),
      groups(`a config \${what} is answered with the reason`),
      groups(`json-file writes no \${bad}`),
      groups('an input that Ansible would read as a template is refused'),
      deployments('a template names only minions that its registration lists'),
      deployments(
        'a server is the minion of its enrolment where that is of the same project alone',
      ),
      deployments('a service that is not listed is not asked, whoever names it'),
      stacks('a stack of minions that no rule names is not registered'),
    ],
  },
  {
    id: 'H-30b',
    threat: 'a deployment runs twice',
    tests: [
      deployments(`a deployment read by \${kind} runs once and is answered where Heat says`),
      deployments(
        'an entry that is listed again does not run again, and an update runs what changed',
      ),
      deployments(
        'a run that is too old for its key to be certain is unknown, and does not run again',
      ),
      'heat-bridge/deployments/crash.long.test.ts: a master that is killed while deployments run, or are answered, ends each of them once',
    ],
  },
  {
    id: 'H-30c',
    threat: 'metadata, results and requests to Heat without bounds',
    tests: [
      deployments('a result that is larger than the transport takes is cut, and says so'),
      deployments('metadata that is larger than it may be is not read'),
      deployments('200 servers are read at the rate that the interval means, from the start'),
      deployments('requests keep to polls_per_second, however many servers there are'),
    ],
  },
  {
    id: 'H-30d',
    threat: 'what one stack has is used for another',
    tests: [
      deployments('the credentials of a stack are used for no other stack'),
      deployments('nothing of a stack shows its secrets, and a removed stack is not followed'),
      deployments('a service that repeats a secret has it in no reason'),
      deployments('handles that a server names are registered for its minion'),
      deployments('a machine that is retired is no server of any stack'),
      stacks(
        'a stack is of whoever registers it, its secrets are not shown, and others know nothing of it',
      ),
    ],
  },
  {
    id: 'H-50a',
    threat: 'guest: what one stack writes is read, or written, by a guest of another',
    tests: [
      guests('a guest cannot read or write data of a stack in which it has no role'),
      guestData('a value is written once unless it is declared versioned, by its role alone'),
      guestData('stacks of one name and two owners keep apart, and a minion is in one of them'),
      guestData(
        'values that wait for each other, and roles that there are not, are not registered',
      ),
      guestSpaces('a data space of minions that no rule names is not registered'),
      authenticated('a value that something else wrote, or moved, is refused by name'),
    ],
  },
  {
    id: 'H-50b',
    threat: 'guest: a secret value is read by somebody else',
    tests: [
      guests('a secret value is not sent to a minion whose replies others can decrypt'),
      guestData('secret values are sealed in the store, and no value is in the audit log or shown'),
      coordinatorOptions('options of a coordinator that cannot be are refused, each with its key'),
    ],
  },
  {
    id: 'H-50c',
    threat: 'guest: values without bounds',
    tests: [
      guestData('a stack that would exceed its quota is refused by the name of the quota'),
      guestData('a value is text of at most 64 KiB'),
      guestData('registrations of one owner leave room for those of others, and give it back'),
      coordinatorOptions('a frame of ZooKeeper that is too long ends the connection'),
    ],
  },
  {
    id: 'H-50d',
    threat: 'guest: one guest passes for another, or needs no rule',
    tests: [
      guests('a guest that claims to be another guest is treated as itself'),
      guests('without a rule, a guest learns nothing, not even whether a data space exists'),
      guestData('a token is good for its own machine, until that is retired'),
      guestData('nothing is read or written without a rule, and rules may name keys'),
      guestData('the pillar of a guest has what it may read and what is known when it starts'),
    ],
  },
  {
    id: 'H-50e',
    threat: 'guest: a guest learns of, or is told, machines that are not of its project',
    tests: [
      guestPeers('each guest among 500 instances in 20 projects sees only its own project'),
      guestPeers(
        'the second machine sees the first as soon as that has enrolled, without any cloud',
      ),
      guestPeers('a port that a tenant gives the id of another’s instance is not that instance’s'),
      guestPeers('peers need a rule, and a token'),
    ],
  },
  {
    id: 'H-50f',
    threat: 'guest: vendordata gives a ticket to somebody else, or a second one',
    tests: [
      vendordata('five requests at once have one ticket, and none is there after it was used'),
      vendordata('the ticket is kept nowhere, and is the same after a restart'),
      vendordata('nobody but the service that a rule names is answered'),
      vendordata(
        'instances that the rule does not mean get nothing, and the guest can change none of it',
      ),
      vendordata('an id by name and project is given once, and only where it can be an id'),
      vendordata('requests of another form, or too many of them, are refused'),
    ],
  },
  {
    id: 'H-50g',
    threat: 'guest: a neighbour, a forged header or a request again is taken for an instance',
    tests: [
      metadataAgent(
        'one address in two networks is two instances, to Nova with its signature and to the master',
      ),
      metadataAgent('headers that a guest sends as well change nothing, and nobody else is found'),
      metadataAgent(
        'through a router, an instance is found in one of its networks, and in no other',
      ),
      metadataAgent(
        'the master takes a request of an agent once, soon, and for an instance of the project',
      ),
      metadataAgent(
        'a secret that can be guessed, or a file that cannot be, is refused at the start',
      ),
      metadataAgent(
        'Neutron is asked for the port of an address in its network, or of a link-local one by its MAC',
      ),
      networkListeners(
        'behind no proxy, an instance is where its connection comes from, whatever it says',
      ),
      networkListeners('one address has so many connections to a network, and others have theirs'),
    ],
  },
  {
    id: 'H-50h',
    threat: 'guest: an instance enrols that no rule means, twice, or as somebody else',
    tests: [
      byIdentity(
        'an instance that a rule means gets its user-data until it has claimed, and none afterwards',
      ),
      byIdentity(
        'an instance of another project, image, network, zone or agent is told what an unknown one is',
      ),
      byIdentity(
        'two instances never have one id, whichever asks first, and a later one has it when the first is retired',
      ),
      byIdentity(
        'nothing that a guest sends makes it another instance, and nobody but an agent is answered',
      ),
      byIdentity('an instance that asks again and again is told to wait, and others are not'),
      byIdentity('one instance has one enrolment, by Nova or by itself'),
      byIdentity('without a rule nobody is answered'),
      byIdentity('every mistake in the rules is told with its line'),
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
      agentRelay('an instance has so many connections, and who is nobody has none'),
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
        'a machine claims by its ticket and by what the agent has found out, and both must agree',
      ),
      agentClaims(
        'a ticket for an instance, or for what a relay says of it, is good for no other one',
      ),
      agentClaims(
        'a guest signals through the agent, or with its token, what rules permit its minion',
      ),
    ],
  },
  {
    id: 'H-50k',
    threat: 'guest: a notification says what peers are, or leads to requests without end',
    tests: [
      notifications(
        'an instance is a peer as soon as a notification has named it, by what Nova says of it',
      ),
      notifications(
        'notifications without end lead to so many requests, and each poll to some of them',
      ),
    ],
  },
  {
    id: 'H-31',
    threat: 'init metadata, or a parameter of an installation, is more than a value',
    tests: [
      metadata('no text of metadata is an id, a key or a requisite of a state'),
      metadata(
        'a value that Salt would call is refused, and encoded where it is the content of a file',
      ),
      metadata(`the path \${JSON.stringify(bad)} is refused`),
      metadata(`the address \${bad} is refused`),
      metadata('test_cfn_init_runs_list_commands_without_shell: arguments stay what they are'),
      metadata(
        'sets that refer to each other over and over are refused, also where they name no config',
      ),
      metadata('more states or bytes than a run may have are refused'),
      metadata('the files of a run share one bound of bytes and of tags'),
      metadata('labels of states count as bytes of the run'),
      nesting('a deployment whose config is nested without end is answered with the reason'),
      nesting('an input that is nested without end is named'),
      metadata('Mustache that cannot be read, or that grows without end, is refused'),
      installs(`the catalog refuses a parameter as \${what}`),
      installs('a service installs what the catalog says, with its own values'),
      hooks('a template signals no handle that its stack has not registered'),
    ],
  },
  {
    id: 'H-32',
    threat: 'an execution plan of Murano runs its own code, or one that nobody has signed',
    tests: [
      executionPlans(`a body that is \${JSON.stringify(body)} is refused`),
      executionPlans(`an invalid execution plan is refused as by Murano's agent (\${at})`),
      executionPlans('downloads, format 1 and Berkshelf are refused'),
      executionPlans('a signature is good for one guest and one text'),
      executionPlans('without a key nothing is taken, unless unsigned ones are'),
      executionPlans('the same execution plan again is the same run, and an older one is refused'),
      executionPlans('a user without rights on a guest learns nothing of its stamps'),
      executionPlans(`an execution plan with \${what} is refused`),
      executionPlans('an execution plan without an id cannot be answered'),
      waitingPlans(
        'execution plans of one caller that wait for a guest keep no other caller from it',
      ),
      waitingPlans('an execution plan that is nested without end is malformed'),
    ],
  },
  {
    id: 'H-33',
    threat: 'a runner reads, keeps or asks more than the configuration says',
    tests: [
      sdb('profiles of the configuration lead to variables and to files, as in Salt'),
      sdb('variables that are set are bounded'),
      reactor('an invalid reactor, one beyond the limit, and a request of a user are refused'),
      httpQuery('listed hosts are asked as by Salt, within bounds, and no others'),
    ],
  },
  {
    id: 'H-70a',
    threat: "local client: a program of another account acts with the rights of the master's",
    tests: [
      localClients(
        'a request with another key, or none, is refused, and nothing is published or told',
      ),
      localClients('the key is good for its own account alone'),
    ],
  },
  {
    id: 'H-70b',
    threat: "local client: salt-api sends the key along, and every user of it has root's rights",
    tests: [localClients('a log-in counts alone, although the key is sent along')],
  },
  {
    id: 'H-70c',
    threat: 'local client: another account reads the key or the events, or fires some',
    tests: [
      localClients('key, configuration and sockets are for the account of the master alone'),
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
      localClients('a client that fires what is no event is disconnected, and others are served'),
      localClients('a reader of events who does not read is disconnected, with a line in the log'),
    ],
  },
  {
    id: 'H-85a',
    threat: 'cluster: members that apply the same entries do not hold the same',
    tests: [
      clusterLog('clocks that differ by a minute make no difference between members'),
      clusterLog('neither of two members with different content continues'),
      clusterLog('a member that does not hold what most hold stops, and they go on'),
    ],
  },
  {
    id: 'H-85b',
    threat: 'cluster: a write is acknowledged that only one machine has',
    tests: [clusterLog('a write is acknowledged when a second member has applied it, not before')],
  },
  {
    id: 'H-85c',
    threat: 'cluster: a write takes effect twice',
    tests: [
      clusterLog('an append whose outcome is unknown is made again, and takes effect once'),
      clusterLog('an entry that the log has twice takes effect once'),
      clusterLog('a former opening and its writes that come again have no effect'),
    ],
  },
  {
    id: 'H-85d',
    threat: 'cluster: a member that was replaced, or has lost a lease, writes on',
    tests: [
      clusterLog('a token that another member has replaced fences a write'),
      clusterLog('messages from a replaced member have no effect'),
    ],
  },
  {
    id: 'H-85e',
    threat: 'cluster: who has the log alone reads, forges, takes out or replaces entries',
    tests: [
      clusterLog(
        'nothing of a write can be read in the log, and nobody without the secret adds to it',
      ),
      clusterLog('entries that were taken out or replaced stop the store'),
      clusterLog('an entry that was replaced is noticed while the store is open'),
    ],
  },
  {
    id: 'H-85f',
    threat: 'cluster: a write is larger than an entry of the log may be',
    tests: [clusterLog('a write that no entry has room for is refused before anything is written')],
  },
  {
    id: 'H-86a',
    threat: 'cluster: who has a used or old ticket, or reads the secret, becomes a member',
    tests: [
      clusterMasters('a ticket is good once'),
      // biome-ignore lint/suspicious/noTemplateCurlyInString: as it is written there
      clusterMasters('a ticket ${title} is refused, and nothing is changed'),
      clusterKeys('a secret that others may read is not used'),
    ],
  },
  {
    id: 'H-86b',
    threat: 'cluster: a key that is deleted at one member serves at another one',
    tests: [
      clusterMasters('a key that one deletes is gone at the other, with its connection'),
      clusterKeys('with an accepted key its session goes, in the same write'),
      clusterKeys('a publish key that one member has replaced comes back by no other'),
    ],
  },
  {
    id: 'H-86c',
    threat: 'cluster: members decide differently about one session, one jid or one message',
    tests: [
      clusterKeys('a minion that signs in at two members at once has one session'),
      clusterKeys('one of two members that decide about a key at once is refused'),
      clusterKeys('one of two jobs with one jid that two members store at once is stored'),
      clusterKeys('a return that two members take at once is kept once, and known to both'),
      clusterKeys('a message that comes again is not heard again'),
      clusterMasters('a request that comes again at another member has no second effect'),
      clusterMasters('one of two jobs with one jid that two members receive at once is published'),
    ],
  },
  {
    id: 'H-86d',
    threat: 'cluster: what one member is to do is done by two',
    tests: [
      clusterDuties('one member has the duties, and another one when it leaves'),
      clusterDuties('a member that was started again goes on with its duties'),
      clusterDuties(
        'the schedule runs at the member that has the duties, which begins what the former one did not',
      ),
    ],
  },
  {
    id: 'H-86k',
    threat: 'cluster: a reaction runs at two members',
    tests: [
      clusterReactions('the effects of one event at two members are queued once'),
      clusterReactions(
        'one other member takes over the work of a lost member, which can then end nothing',
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
        'a signal of the dead-letter list is tried again once, whichever member is asked',
      ),
      clusterSignals('one of two members that register handles of one alias at once is refused'),
      'heat-bridge/enroll/repository.test.ts: one of two members that change the same enrolment at once is refused',
    ],
  },
  {
    id: 'H-86j',
    threat: 'cluster: a run of the bridge is run by two members',
    tests: [
      clusterRuns('one key at two members at once is one run'),
      clusterRuns('a run is of one member, and another one writes nothing of it'),
      clusterRuns('runs go on at another member when theirs leaves, with a key and without'),
      clusterRuns('a run whose deadline has passed when its member is gone is over'),
    ],
  },
  {
    id: 'H-105',
    threat: 'cluster: stacks, data spaces and instances are those of one member alone',
    tests: [
      clusterRuns('a stack of one member is followed by the one with the lease, for all'),
      clusterDeployments('a member that has lost the lease can no longer change deployments'),
      clusterGuests('a value that is written at one member reaches who waits for it at another'),
      clusterGuests('a value of a space that another member ends meanwhile does not stay'),
      clusterGuests(
        'a minion is in one space, also where two members register it at the same moment',
      ),
      clusterGuests('an instance has one ticket, also at a member that has not heard of it yet'),
      'heat-bridge/murano/waiting-plans.test.ts: a stamp that one member of a cluster took is not taken again by another',
    ],
  },
  {
    id: 'H-106',
    threat: 'a user learns of the job of somebody else by its job id, or takes its place',
    tests: [users('a restricted user can choose and follow only job ids of their own')],
  },
  {
    id: 'H-107',
    threat: 'over the HTTP API, methods of the bridge do more than their caller may',
    tests: [clusterRuns('a client of the bridge goes on with the next member, with its rights')],
  },
  {
    id: 'H-108',
    threat: 'cluster: more runs of a reaction at a time than it may have',
    tests: [
      clusterReactions('so many runs of a reaction at a time as it may have, over all members'),
      clusterReactions(
        'the member that has a run repeats a failed write once the store accepts it',
      ),
    ],
  },
  {
    id: 'H-109',
    threat: 'cluster: whoever reads the store uses the sessions of the HTTP API',
    tests: [
      sharedSessions(
        'a session of one member is known to all, and whoever reads the store can use none',
      ),
    ],
  },
  {
    id: 'H-110',
    threat: 'cluster: a session of the HTTP API goes on at another member after its end',
    tests: [
      sharedSessions(
        'a session that is closed at one member is closed, also where it is used at that moment',
      ),
      sharedSessions('use at any member counts, and is written once in a quarter of the idle time'),
      'server/serve.test.ts: a session of one member holds at the other, with its end, and when the first is gone',
    ],
  },
  {
    id: 'H-112',
    threat: 'cluster: an orchestration is done twice, or by two members',
    tests: [
      clusterOrchestrations(
        'an orchestration goes on at another member when its own leaves, and does nothing twice',
      ),
      clusterOrchestrations(
        'a step without a job ends as interrupted after its member is gone, and the rest continues',
      ),
      clusterOrchestrations(
        'a member that has lost an orchestration to another begins no more steps',
      ),
      clusterOrchestrations('SLS that are others at the next member end it there'),
    ],
  },
  {
    id: 'H-113',
    threat: 'cluster: a job that other members publish is in no audit log',
    tests: [
      clusterMasters('a job that was not confirmed, and may have been published, is audited'),
    ],
  },
  {
    id: 'H-86m',
    threat: 'cluster: who has one master writes its audit log anew',
    tests: [
      audit('a log that was written anew is not the one that another member has noted'),
      audit('a log whose end was cut off ends before the record that another member has noted'),
    ],
  },
  {
    id: 'H-86f',
    threat: 'cluster: what was revoked serves on at a member that is cut off',
    tests: [
      clusterMasters(
        'a master that was cut off for long refuses minions and tokens until it is back',
      ),
      clusterMasters('a master that receives no entries of the log becomes stale'),
    ],
  },
  {
    id: 'H-86e',
    threat: 'cluster: the store of a member is changed beside its log',
    tests: [
      clusterOffline(
        'the state and the keys of a master become those of a cluster, and of a master again',
      ),
      clusterMasters('a member that is alive is not taken out'),
    ],
  },
  {
    id: 'H-87',
    threat: 'cluster: a master that is taken to another place loses or gains something on its way',
    tests: [
      clusterOffline('an export that is not whole, or does not fit, is refused and leaves nothing'),
      clusterOffline(
        'a master is copied into a cluster whose first member it is, and out of it again',
      ),
    ],
  },
  {
    id: 'H-88',
    threat:
      'cluster: a log is begun anew under members that write to it, or with what it never had',
    tests: [
      clusterOffline('a cluster becomes what it was at a position, from a backup and the log'),
      clusterLog('a backup is brought to a position or a time by what the log has after it'),
    ],
  },
  {
    id: 'H-89',
    threat:
      'cluster: the NATS user of a member may more than it needs, or its credentials are read',
    tests: [
      'store/log-nats.long.test.ts: the rights that are documented suffice; fewer are refused, more are told',
      clusterKeys('a secret that others may read is not used'),
    ],
  },
  {
    id: 'H-86g',
    threat: 'cluster: a call that goes on to the next master is done twice, or waits for ever',
    tests: [
      settledJobs('a job goes on at no master that does not keep it'),
      settledJobs('a job that the next master learns of meanwhile is looked up once more'),
      settledJobs('read-only calls are repeated, and calls that may have had an effect are not'),
      failOver('a runner whose answer was lost is not called again'),
      failOver('a member that is drained takes nothing new, and lets callers finish'),
      failOver('a master that answers nothing any more is left, and the call goes on'),
      failOver('no address may be one over which a token goes in the clear'),
    ],
  },
  {
    id: 'H-86h',
    threat: 'cluster: a reader of events misses some, or reads them twice, at the next member',
    tests: [
      eventRing('an id holds at a member that heard the same in another order'),
      eventRing('events that the next member receives only later are not emitted twice'),
      eventRing('readers are notified of events of another member that did not arrive'),
      failOver('a stream of events goes on at the next master, and tells each once'),
    ],
  },
  {
    id: 'H-95',
    threat: 'cluster: who follows a job is not told what another member has taken of it',
    tests: [clusterMasters('a return is told that comes before the job is acknowledged')],
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
      fleetWork('a stored target has a budget of its own'),
      mineWork('a value with a costly allow_tgt is not stored, and others of the request are'),
      mineWork('a costly allow_tgt that is in the store withholds its own value alone'),
    ],
  },
  {
    id: 'H-147d',
    threat: 'a restricted user holds the master by targets, globs and filters of events',
    tests: [
      apiWork('a costly target is refused by name on each client that takes one'),
      apiWork('costly globs are refused by runners and wheel functions'),
      apiWork('the patterns of a reader of events are bounded'),
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
      callerWork('a Mustache template is read once, also if it is nothing but braces'),
      callerWork('user-data that is large or deep is searched for the name, and not parsed'),
    ],
  },
  {
    id: 'H-471',
    threat: 'a text from outside is a call, a reference or an encrypted block for Salt',
    tests: [
      parameters('a state takes no text that Salt would interpret, quoted or not'),
      parameters('a schema may let a text have what Salt interprets'),
      metadata(
        'a value that Salt would call is refused, and encoded where it is the content of a file',
      ),
      guestData('a value that Salt would interpret is refused by what is wrong with it'),
      guestData('a value that Salt would interpret reaches no reader if it was written before'),
      'heat-bridge/guests/peers.test.ts: a name that Salt would interpret reaches no peer',
      reactor('text of an event that Salt would interpret becomes no value'),
      reactions('a value of an event that Salt would interpret leads to nothing'),
      users('a limited user passes nothing on that Salt would interpret'),
      groups('SLS gets no input and no name from Heat that Salt would interpret'),
      executionPlans('a parameter that Salt would interpret is refused'),
      plans('no command receives a return that Salt would interpret'),
      peers('a minion passes nothing on that Salt would interpret'),
    ],
  },
  {
    id: 'H-472',
    threat: 'one owner takes the share of others of a limited resource',
    tests: [
      fairLimits('waiting owners take turns'),
      fairLimits('a reserved slot is for an owner that has none'),
      fairLimits('half of the waiting places are for owners that have none'),
      fairLimits('a table of single rows refuses another owner, but not a row that it replaces'),
      fairLimits('the owner of an address is an IPv4 address or a network of 64 bits'),
      'limits.test.ts: no limiter is outside of the registry',
      'runtime/worker-pool.test.ts: a long text of one caller does not wait for those of another',
      'runtime/worker-pool.test.ts: a rendering for one minion does not wait for those of another',
      'master/keys/rsa-pool.test.ts: an address has its turn while another one has 300 operations waiting',
      "master/keys/key-generator.test.ts: the pairs of a caller do not take the threads of libuv's pool",
      'master/keys/key-generator.test.ts: a caller gets no larger key than key_bits, and few may wait',
      'master/eauth/login-limits.test.ts: failed log-ins from one IPv6 network are counted together',
      'master/eauth/login-limits.test.ts: many sources do not take the slots of a new one',
      "master/eauth/token-owners.test.ts: the sessions of a user outlast another user's 50,011 log-ins",
      "master/eauth/token-owners.test.ts: the tokens of a user outlast another user's log-ins",
      "salt-api/shared-sessions.test.ts: a user's sessions do not end those of another user",
      'master/jobs/returns.test.ts: the bytes of self-made jobs are bounded, and highstates of 5 MB fit',
      'master/audit/audit-log.test.ts: entries with one key count as one, and the last is in the summary',
    ],
  },
  {
    id: 'H-477',
    threat: 'a text of an event is a pattern, a compound target or a function in a reactor file',
    tests: [
      reactor('text of an event is no pattern, whatever it consists of'),
      reactor(`text of an event is no pattern and no function of a runner: \${call}`),
    ],
  },
];

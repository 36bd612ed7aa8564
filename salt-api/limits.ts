import { defineLimits } from '#runtime';

/** Limits of the HTTP API. */
export const apiLimits = defineLimits('api', {
  openBodies: {
    unit: 'bytes of request bodies from senders that are not authenticated',
    owner: 'address',
    perOwner: 8_388_608,
    total: 67_108_864,
    effect: 'The request is rejected.',
    code: 'ERR_HTTP_BUSY',
  },
  answerBytes: {
    unit: 'bytes of results of commands and of methods of `/rpc`, and of status pages, in responses that are not yet sent',
    owner: 'user',
    perOwner: 536_870_912,
    total: 1_073_741_824,
    reserved: 134_217_728,
    effect: 'The request is rejected. Its jobs continue, and the job cache has their returns.',
    code: 'ERR_LIMIT',
  },
  streams: {
    unit: 'open event streams',
    owner: 'token',
    amounts: '`streams_per_token`, and `streams` of all',
    option: 'saltbridge:api:streams_per_token',
    effect: 'The stream is rejected.',
    code: 'ERR_HTTP_STREAMS',
  },
  userStreams: {
    unit: 'open event streams of all log-ins of a user',
    owner: 'user',
    amounts:
      'half of `streams`; a quarter of `streams` is reserved for users without an open stream',
    option: 'saltbridge:api:streams',
    effect: 'The stream is rejected.',
    code: 'ERR_HTTP_STREAMS',
  },
  connectionStreams: {
    unit: 'open event streams of one connection',
    owner: 'connection',
    perOwner: 1,
    effect: 'The stream is rejected.',
    code: 'ERR_HTTP_STREAMS',
  },
  streamBytes: {
    unit: 'bytes that wait for the readers of event streams',
    owner: 'none',
    amounts: '`stream_bytes`',
    option: 'saltbridge:api:stream_bytes',
    effect: 'The slowest readers are disconnected first.',
  },
  unreadSeconds: {
    unit: 'seconds in which a client receives no part of the result of a method of `/rpc`, or of a stream that waits for its reader',
    owner: 'connection',
    perOwner: 60,
    effect: 'The connection ends. Streams of events have a limit of waiting bytes instead.',
  },
  localEventBytes: {
    unit: "bytes that wait for Salt's own clients at the local event socket",
    owner: 'none',
    total: 128 * 1024 * 1024,
    effect: 'The slowest readers are disconnected first.',
  },
  websocketMessages: {
    unit: 'WebSocket messages that a client sends',
    owner: 'connection',
    rate: { perSecond: 10, burst: 100 },
    effect: 'The connection is closed.',
  },
  yamlThreads: {
    unit: 'responses that worker threads encode as YAML',
    owner: 'caller',
    amounts:
      'one thread less than there are processors, but at least 1 and at most 2; one more thread for callers without a response in progress',
    reserved: 1,
    waiting: { perOwner: 8, total: 64 },
    effect: 'Further responses wait in turns, then are rejected.',
    code: 'ERR_HTTP_BUSY',
  },
  sessions: {
    unit: 'sessions',
    owner: 'user',
    total: 50_000,
    effect: 'The least recently used session of the user with the most sessions is closed.',
    code: 'ERR_LIMIT',
  },
  expectedSessions: {
    unit: 'requests that wait for a session that another member of the cluster may have just opened',
    owner: 'address',
    perOwner: 128,
    total: 1024,
    reserved: 512,
    effect:
      'The request does not wait. If this member does not know the session, it rejects the request.',
    code: 'ERR_HTTP_SESSION',
  },
  formattedJobs: {
    unit: 'bytes of the state of jobs, and of the state of minions, that one stream of formatted events (`/ws?format_events`) stores',
    owner: 'connection',
    amounts: '`max_event_size`',
    option: 'max_event_size',
    effect: 'The oldest jobs or minions are evicted. A larger value is replaced by a text.',
  },
  formattedBytes: {
    unit: 'bytes that streams of formatted events send',
    owner: 'user',
    rate: { perSecond: 4 * 1_048_576, burst: 16 * 1_048_576 },
    effect: 'Further changes are combined, and sent later.',
  },
});

/**
 * Time after which a connection ends if its client receives nothing of a result or of a stream, in
 * milliseconds.
 */
export const unreadMs = (apiLimits.unreadSeconds.perOwner ?? Infinity) * 1000;

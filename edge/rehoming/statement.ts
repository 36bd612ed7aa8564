/**
 * Statements that move sites to another centre. The root keys of the present centre sign a
 * statement in advance. If the present centre is lost, a site that has stored the statement can
 * change to the other centre by itself.
 *
 * The text has three parts, separated by dots: a prefix, the body, and the signatures. A statement
 * is not secret.
 */

import Type, { type Static } from 'typebox';
import { centreUrl, siteName } from '#config';
import { compileSchema } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type SigningKey, signWith } from '../bundles/tuf-keys.ts';
import { readRoot, type VerifiedRoot } from '../bundles/tuf-metadata.ts';
import { EdgeError } from '../errors.ts';
import { isSignedBy, keyBytes, signatureBytes, signedForm } from '../identity/ed25519.ts';

const purpose = 'saltbridge rehoming 1';
const prefix = 'saltbridge-rehome-1';

/**
 * Maximum length of the text of a statement, in characters. A statement of this length fits into
 * one message.
 */
export const maxStatementLength = 60_000;

/** Maximum validity of a statement, in days. */
export const maxStatementDays = 1096;

/** Maximum number of signatures of a statement. */
const maxSignatures = 16;

/**
 * Maximum time by which the time of issue of a statement may be ahead of the clock of the site that
 * reads it, in milliseconds: a day.
 */
export const maxAheadMs = 86_400_000;

/**
 * Maximum time by which the time of issue of a statement may be ahead of the clock of the centre
 * that publishes it, or of the machine that adds a signature, in milliseconds: an hour.
 */
export const maxSignerAheadMs = 3_600_000;

const strict = { additionalProperties: false };
const Time = Type.Integer({ minimum: 0, maximum: 2 ** 48 });

const NextCentreSchema = Type.Object(
  {
    /** Id of the centre in its root metadata. */
    id: Type.String({ minLength: 1, maxLength: 128 }),
    /** Public online key, in base64url. */
    key: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
    /** Root metadata, in base64. */
    root: Type.String({ minLength: 1, maxLength: 40_000, pattern: '^[A-Za-z0-9+/]+={0,2}$' }),
    /** Addresses of the HTTP API, in the order in which a site tries them. */
    addresses: Type.Array(Type.String({ maxLength: 512, pattern: centreUrl.source }), {
      minItems: 1,
      maxItems: 8,
    }),
    /** CA of the certificate, PEM. Absent: the site uses its option `ca`. */
    ca: Type.Optional(Type.String({ maxLength: 8192 })),
    /** Whether the TLS connections of sites end at a proxy in front of the centre. */
    behindProxy: Type.Boolean(),
  },
  strict,
);
const nextCentreCheck = compileSchema(NextCentreSchema);

/** Description of the centre to which a statement moves sites. */
export type NextCentre = Readonly<Static<typeof NextCentreSchema>>;

const StatementSchema = Type.Object(
  {
    /** Id of the present centre. */
    centre: Type.String({ minLength: 1, maxLength: 128 }),
    /** Sites that the statement moves: names, or globs that match names. */
    sites: Type.Array(Type.String({ minLength: 1, maxLength: 63 }), { minItems: 1, maxItems: 200 }),
    /**
     * Time of issue, in milliseconds since 1970. A later statement replaces an earlier one.
     * `expiresAt` is the end of the validity.
     */
    issuedAt: Time,
    expiresAt: Time,
    /**
     * Time without the present centre after which a site tries the next centre, in seconds. 0: the
     * site tries it at once.
     */
    afterSeconds: Type.Integer({ minimum: 0, maximum: 31_536_000 }),
    to: NextCentreSchema,
  },
  strict,
);
const statementCheck = compileSchema(StatementSchema);

/** Content of a statement, which moves sites to another centre. */
export type Statement = Readonly<Static<typeof StatementSchema>>;

/** Statement whose signatures are not verified yet. */
export interface UnverifiedStatement {
  readonly statement: Statement;
  /**
   * Public keys that the statement names as signers, in hexadecimal digits. Their signatures are
   * not verified.
   */
  readonly signers: readonly string[];
}

interface ParsedStatement {
  readonly statement: Statement;
  readonly body: Buffer;
  readonly signatures: readonly { readonly publicKey: Buffer; readonly signature: Buffer }[];
}

/**
 * Parses the text of a description of a centre.
 * @throws EdgeError ERR_REHOME_STATEMENT if it is malformed
 */
export async function parseNextCentre(text: string): Promise<NextCentre> {
  const found = parseJsonWith(nextCentreCheck, Buffer.from(text));
  await requireRootOf(found);
  return found;
}

/**
 * Writes and signs a statement.
 * @throws EdgeError ERR_REHOME_STATEMENT if it is too long or a name of a site is not valid
 */
export function writeStatement(statement: Statement, signers: readonly SigningKey[]): string {
  const body = Buffer.from(JSON.stringify(statement));
  parseJsonWith(statementCheck, body);
  for (const pattern of statement.sites) requirePattern(pattern);
  return joined(
    body,
    signers.map((key) => signatureOf(key, body)),
  );
}

/**
 * Adds signatures to a statement that moves sites to another centre. If a key has already signed
 * the statement, its new signature replaces the earlier one.
 * @param now - clock of the machine that signs, in milliseconds since 1970
 * @throws EdgeError ERR_REHOME_STATEMENT, and ERR_REHOME_EXPIRED if the time of issue is more than
 * an hour ahead
 */
export function cosignStatement(
  text: string,
  signers: readonly SigningKey[],
  now: number = Date.now(),
): string {
  const { statement, body, signatures } = parseStatement(text);
  requireIssued(statement, now, maxSignerAheadMs);
  const added = signers.map((key) => signatureOf(key, body));
  const isAdded = (publicKey: Buffer): boolean =>
    added.some((it) => it.publicKey.equals(publicKey));
  return joined(body, [...signatures.filter((it) => !isAdded(it.publicKey)), ...added]);
}

/**
 * Reads a statement that moves sites to another centre, without verifying it.
 * @throws EdgeError ERR_REHOME_STATEMENT
 */
export function readStatement(text: string): UnverifiedStatement {
  const { statement, signatures } = parseStatement(text);
  return { statement, signers: signatures.map(({ publicKey }) => publicKey.toString('hex')) };
}

/**
 * Returns a function that decides, by the name of a site, whether a statement moves this site to
 * another centre.
 */
export function compileNames({ sites }: Pick<Statement, 'sites'>): (site: string) => boolean {
  const globs = sites.map((pattern) => compileGlob(pattern));
  return (site) => globs.some((matches) => matches(site));
}

/** Conditions that a statement must meet to be valid. A statement moves sites to another centre. */
export interface StatementRequirements {
  /** Root metadata of the present centre. */
  readonly root: Uint8Array;
  readonly now: number;
  /**
   * Name of the site that reads the statement. The statement must name this site. Default: the
   * statement may name any sites.
   */
  readonly site?: string;
  /**
   * Text of the statement that was accepted last, or `undefined`. This statement is accepted again.
   * Any other statement with the same time of issue is refused.
   */
  readonly known: string | undefined;
  /**
   * Time of issue of the latest accepted statement, in milliseconds since 1970. Earlier statements
   * are refused.
   */
  readonly floor: number;
  /**
   * Time at which the site replaced a wrong time of its centre, in milliseconds since 1970. If
   * `floor` is in the future, it comes from the wrong time. Then it has no effect, and statements
   * from more than a day before the correction are refused. Default: 0, no correction.
   */
  readonly correctedAt?: number;
  /**
   * Maximum time by which the time of issue may be ahead of `now`, in milliseconds. Default:
   * {@link maxAheadMs}.
   */
  readonly aheadMs?: number;
}

/**
 * Verifies a statement that moves sites to another centre. Enough root keys of the present centre
 * must have signed it: at least the threshold in the root metadata.
 * @throws EdgeError ERR_REHOME_STATEMENT, ERR_REHOME_CENTRE, ERR_REHOME_KEYS, ERR_REHOME_SITE,
 * ERR_REHOME_EXPIRED, ERR_REHOME_OLD
 */
export async function verifyStatement(
  text: string,
  {
    root: rootBytes,
    now,
    site,
    known,
    floor,
    correctedAt = 0,
    aheadMs = maxAheadMs,
  }: StatementRequirements,
): Promise<Statement> {
  const parsed = parseStatement(text);
  const { statement } = parsed;
  const root = await readRoot(rootBytes);
  if (statement.centre !== root.centre) {
    const problem = `the statement is from the centre ${statement.centre}, not from ${root.centre}`;
    throw new EdgeError('ERR_REHOME_CENTRE', problem);
  }
  requireSignatures(parsed, root);
  if (site !== undefined && !compileNames(statement)(site)) {
    throw new EdgeError('ERR_REHOME_SITE', `the statement does not name the site ${site}`);
  }
  const { issuedAt, expiresAt } = statement;
  if (now > expiresAt) {
    const times = [issuedAt, expiresAt].map((ms) => new Date(ms).toISOString());
    const problem = `the statement is not valid now: it is valid from ${times.join(' to ')}`;
    throw new EdgeError('ERR_REHOME_EXPIRED', problem);
  }
  requireIssued(statement, now, aheadMs);
  const isWrongFloor = correctedAt > 0 && floor > now + maxAheadMs;
  const lowest = isWrongFloor ? correctedAt - maxAheadMs : floor;
  if (issuedAt < lowest || (issuedAt === floor && text !== known)) {
    const accepted = new Date(lowest).toISOString();
    const problem = isWrongFloor
      ? `the statement is from before ${accepted}, and this site has accepted a statement whose time of issue is in the future`
      : `the statement is not newer than the accepted statement of ${accepted}`;
    throw new EdgeError('ERR_REHOME_OLD', problem);
  }
  await requireRootOf(statement.to);
  return statement;
}

/**
 * Checks that the time of issue of a statement is not too far in the future. Otherwise a statement
 * from a machine whose clock is ahead would prevent all later ones.
 * @throws EdgeError ERR_REHOME_EXPIRED
 */
function requireIssued({ issuedAt }: Statement, now: number, aheadMs: number): void {
  if (issuedAt <= now + aheadMs) return;
  const [issued, present] = [issuedAt, now].map((ms) => new Date(ms).toISOString());
  const problem = `the time of issue of the statement is ${issued}, but it is ${present} now; correct the clock of the machine that has signed it, and sign a new statement`;
  throw new EdgeError('ERR_REHOME_EXPIRED', problem);
}

function requireSignatures({ body, signatures }: ParsedStatement, root: VerifiedRoot): void {
  const valid = new Set<string>();
  for (const { publicKey, signature } of signatures) {
    const hex = publicKey.toString('hex');
    if (!root.keys.root.includes(hex)) continue;
    if (!isSignedBy(publicKey, purpose, [body], signature)) {
      const problem = 'the statement was altered: the signature of a root key does not match';
      throw new EdgeError('ERR_REHOME_STATEMENT', problem);
    }
    valid.add(hex);
  }
  const { threshold } = root;
  if (valid.size >= threshold) return;
  const problem = `${valid.size} root keys of the centre signed the statement, but ${threshold} must sign`;
  throw new EdgeError('ERR_REHOME_KEYS', problem);
}

/**
 * Checks the root metadata in the description of a centre.
 * @throws EdgeError ERR_REHOME_STATEMENT if they are invalid or contain another id
 */
async function requireRootOf({ id, root }: NextCentre): Promise<void> {
  const found = await readRoot(Buffer.from(root, 'base64')).catch((cause: unknown) => {
    throw new EdgeError('ERR_REHOME_STATEMENT', 'the root of the next centre is invalid', {
      cause,
    });
  });
  if (found.centre === id) return;
  const problem = `the root of the next centre has the id ${found.centre}, not ${id}`;
  throw new EdgeError('ERR_REHOME_STATEMENT', problem);
}

/**
 * Checks that a pattern can match the name of a site.
 * @throws EdgeError ERR_REHOME_STATEMENT if it cannot
 */
function requirePattern(pattern: string): void {
  if (siteName.test(pattern) || /^[a-z0-9*?[\]-]+$/.test(pattern)) return;
  throw new EdgeError('ERR_REHOME_STATEMENT', `${pattern}: not a name of a site or a glob`);
}

function signatureOf(key: SigningKey, body: Buffer): ParsedStatement['signatures'][number] {
  return {
    publicKey: Buffer.from(key.publicKey, 'hex'),
    signature: Buffer.from(signWith(key, signedForm(purpose, [body])), 'hex'),
  };
}

function joined(body: Buffer, signatures: ParsedStatement['signatures']): string {
  const packed = signatures.map((it) => Buffer.concat([it.publicKey, it.signature]));
  const parts = [body, Buffer.concat(packed)].map((part) => part.toString('base64url'));
  const text = [prefix, ...parts].join('.');
  if (text.length > maxStatementLength || signatures.length > maxSignatures) {
    const problem = `the statement has ${text.length} characters and ${signatures.length} signatures`;
    const most = `${maxStatementLength} characters and ${maxSignatures} signatures`;
    throw new EdgeError('ERR_REHOME_STATEMENT', `${problem}; at most ${most} are possible`);
  }
  return text;
}

function parseStatement(text: string): ParsedStatement {
  const [head, bodyText = '', packedText = '', ...rest] = text.split('.');
  const body = Buffer.from(bodyText, 'base64url');
  const packed = Buffer.from(packedText, 'base64url');
  const size = keyBytes + signatureBytes;
  const count = packed.length / size;
  const isWhole =
    head === prefix &&
    rest.length === 0 &&
    text.length <= maxStatementLength &&
    Number.isInteger(count) &&
    count <= maxSignatures;
  if (!isWhole) {
    const problem = 'the text is not a statement; copy the whole output of the command';
    throw new EdgeError('ERR_REHOME_STATEMENT', problem);
  }
  const signatures = Array.from({ length: count }, (_, index) => {
    const one = packed.subarray(index * size, (index + 1) * size);
    return { publicKey: one.subarray(0, keyBytes), signature: one.subarray(keyBytes) };
  });
  return { statement: parseJsonWith(statementCheck, body), body, signatures };
}

interface Check<T> {
  Parse(value: unknown): T;
}

function parseJsonWith<T>(check: Check<T>, bytes: Buffer): T {
  try {
    return check.Parse(JSON.parse(bytes.toString('utf8')));
  } catch (cause) {
    throw new EdgeError('ERR_REHOME_STATEMENT', 'the statement or description is malformed', {
      cause,
    });
  }
}

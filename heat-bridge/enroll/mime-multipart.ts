/** Writes MIME multipart messages [RFC 2046 5.1], which cloud-init and cloudbase-init read. */

import { hash } from 'node:crypto';
import type { UserDataPart } from './user-data-parts.ts';

/** Pattern for the beginning of text that is a complete MIME message. */
const mimeHeader = /^(content-type|mime-version|from \S+)[: ]/i;

/** Pattern for text that can be sent without encoding: short lines of printable ASCII. */
const sevenBitText = /^(?:[\t\x20-\x7e]{0,990}\n)*[\t\x20-\x7e]{0,990}$/;

/**
 * Combines parts and other user-data into one multipart message.
 * @param beside - other user-data, in any format. A MIME message becomes a part without changes.
 * cloud-init recognises any other format by its first line
 */
export function renderMultipart(parts: readonly UserDataPart[], beside?: string): string {
  const entities = [
    ...(beside === undefined ? [] : [existingUserData(beside)]),
    ...parts.map(mimeEntity),
  ];
  const boundary = boundaryFor(entities);
  const body = entities.map((text) => `--${boundary}\n${text}\n`).join('');
  return `Content-Type: multipart/mixed; boundary="${boundary}"\nMIME-Version: 1.0\n\n${body}--${boundary}--\n`;
}

function existingUserData(content: string): string {
  const isMessage = mimeHeader.test(content);
  return isMessage ? content : mimeEntity({ type: 'text/plain', name: 'user-data', content });
}

function mimeEntity({ type, name, content }: UserDataPart): string {
  const isPlain = sevenBitText.test(content);
  const head = [
    `Content-Type: ${type}; charset="${isPlain ? 'us-ascii' : 'utf-8'}"`,
    'MIME-Version: 1.0',
    `Content-Transfer-Encoding: ${isPlain ? '7bit' : 'base64'}`,
    `Content-Disposition: attachment; filename="${name}"`,
  ];
  return `${head.join('\n')}\n\n${isPlain ? content : base64Lines(content)}`;
}

function base64Lines(content: string): string {
  const text = Buffer.from(content).toString('base64');
  return (text.match(/.{1,76}/g) ?? []).join('\n');
}

/** Returns a boundary that does not occur in the parts, because it contains a digest of them. */
function boundaryFor(entities: readonly string[]): string {
  const digest = hash('sha256', entities.join('\n'));
  return `==saltbridge-${digest.slice(0, 32)}==`;
}

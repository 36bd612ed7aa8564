import { readFileSync } from 'node:fs';

const packageFile = new URL('../../package.json', import.meta.url);
const description: { version: string } = JSON.parse(readFileSync(packageFile, 'utf8'));

/** Version of this package. */
export const version: string = description.version;

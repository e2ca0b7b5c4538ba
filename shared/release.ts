// Which release this is: the version in package.json, as text in the bundle.

export const RELEASE = '0.1.0';
